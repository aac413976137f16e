package guardian

import (
	"errors"
	"syscall"
)

// group is a process group and whatever its members have started.
type group struct {
	leader int // also the group's id, until the last member is gone; 0 before it is known
}

// signal sends to all members. Those that are stopped go on, to receive it.
func (g group) signal(s syscall.Signal) {
	if g.leader == 0 {
		return
	}
	syscall.Kill(-g.leader, s)
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		syscall.Kill(-g.leader, syscall.SIGCONT)
	}
}

// gone reports whether no member is left, dead ones that nobody has waited for among them.
func (g group) gone() bool {
	return g.leader == 0 || errors.Is(syscall.Kill(-g.leader, 0), syscall.ESRCH)
}

// dead reports whether no member lives. It looks at all processes.
func (g group) dead() bool { return g.gone() || onlyDead(g.leader) }

// killDescendants ends what descends from us, in the group or not, and reports how many there were. Where the platform does
// not tell it is none.
func killDescendants(except map[int]bool) int {
	left := descendants(except)
	for _, pid := range left {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(left)
}

// exitCode is what a shell would say: 128 + the signal for a command that a signal has ended.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// Exit codes of a command that cannot be run, as a shell has them, and ours.
const (
	notExecutable = 126
	notFound      = 127
	internal      = 70
)

// startText says in one line why a command could not be started.
func startText(name string, err error) string {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return err.Error()
	}
	if e == syscall.ENOENT {
		return name + ": it, or the interpreter that its first line names: no such file or directory"
	}
	return name + ": " + e.Error()
}

// startCode is the exit code for a command that could not be started.
func startCode(err error) int {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return internal
	}
	switch e {
	case syscall.ENOENT, syscall.ENOTDIR:
		return notFound
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE: // not the command's fault
		return internal
	}
	return notExecutable
}
