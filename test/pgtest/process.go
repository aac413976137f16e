package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// serverUser is whom the server runs as: PostgreSQL refuses to run as root, so root becomes postgres. Nil means
// "as ourselves".
var serverUser = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, errors.New("pgtest: root needs an unprivileged user for the server; run: useradd --system postgres")
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
})

// serverCommand prepares a server program. SIGQUIT (an immediate shutdown) reaches it when this process dies.
func serverCommand(name string, args ...string) (*exec.Cmd, error) {
	credential, err := serverUser()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = "/" // our own directory may be closed to the server's user
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "PGOPTIONS=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	return cmd, nil
}

// The kernel sends the parent-death signal when the *thread* that forked ends, so one thread that never ends forks
// everything (prctl(2), PR_SET_PDEATHSIG).
var forker = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// StartWithParent starts a command whose SysProcAttr asks for a parent-death signal: it ends when this process does.
func StartWithParent(cmd *exec.Cmd) error {
	done := make(chan error)
	forker() <- func() { done <- cmd.Start() }
	return <-done
}

func giveToServer(root string) error {
	credential, err := serverUser()
	if err != nil || credential == nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(credential.Uid), int(credential.Gid))
	})
}

// children lists the direct child processes of pid.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var pids []int
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		// pid (comm) state ppid ...: comm may hold anything, so look behind its last parenthesis.
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		if len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, child)
		}
	}
	return pids
}

func running(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	return len(rest) > 0 && rest[0] != "Z"
}
