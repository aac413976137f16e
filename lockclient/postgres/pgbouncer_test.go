package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/freeport"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// pgbouncer runs one in front of the cluster until the test ends, and returns a DSN through it.
func pgbouncer(t *testing.T, w *world, mode string, size int) string {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer"
		if _, err := os.Stat(path); err != nil {
			t.Skip("pgbouncer is not installed; run: apt-get install -y pgbouncer")
		}
	}
	dir, err := os.MkdirTemp("/tmp", "pgb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	ini := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d user=control
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = %d
logfile = %s/log
`, w.c.Port(), port, mode, size, dir)
	config := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Skip(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		os.Chown(dir, uid, gid)
	}
	if err := pgtest.StartWithParent(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	dsn := fmt.Sprintf("postgres://control@127.0.0.1:%d/%s?sslmode=disable", port, w.db)
	eventually(t, "pgbouncer answers", func() bool {
		conn, err := pgx.Connect(ctx, dsn+"&default_query_exec_mode=exec")
		if err == nil {
			conn.Close(ctx)
		}
		return err == nil
	})
	return dsn
}
