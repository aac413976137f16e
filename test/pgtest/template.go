package pgtest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

var initdbOptions = []string{"--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"}

// initdb makes a data directory at dir, which must not exist. It runs beside dir, in a directory of the server's user.
func (i Installation) initdb(dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), "initdb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := giveToServer(work); err != nil {
		return err
	}
	data := filepath.Join(work, "data")
	cmd, err := serverCommand(filepath.Join(i.BinDir, "initdb"), append([]string{"-D", data}, initdbOptions...)...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return os.Rename(data, dir)
}

// template is the data directory that clusters of this installation are copied from: initdb runs once per machine and
// version. Its place is checked for its owner, since the temporary directory is everybody's.
func (i Installation) template() (string, error) {
	root := filepath.Join(os.TempDir(), fmt.Sprintf("fenceproxy-pgtest-%d", os.Geteuid()))
	if err := os.Mkdir(root, 0o711); err != nil && !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(root)
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || ok && int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("pgtest: %s is not a directory of ours; remove it", root)
	}
	key := sha256.Sum256(fmt.Append(nil, i.Full, i.BinDir, initdbOptions))
	dir := filepath.Join(root, fmt.Sprintf("%d-%x", i.Major, key[:6]))

	// Test binaries of several packages start at once: one makes the template, the others wait.
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err == nil {
		return dir, nil
	}
	return dir, i.initdb(dir)
}
