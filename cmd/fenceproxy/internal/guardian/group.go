package guardian

import (
	"errors"
	"os/exec"
	"syscall"
)

// group is a process group and whatever its members have started.
type group struct {
	leader int // also the group's id, until the last member is gone
}

// signal sends to all members. Those that are stopped go on, to receive it.
func (g group) signal(s syscall.Signal) {
	syscall.Kill(-g.leader, s)
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		syscall.Kill(-g.leader, syscall.SIGCONT)
	}
}

// gone reports whether no member is left. Members that have ended and were not waited for count.
func (g group) gone() bool {
	reapOrphans(g.leader)
	return errors.Is(syscall.Kill(-g.leader, 0), syscall.ESRCH)
}

// kill ends all members, and what has left the group but descends from it where the platform lets us know.
func (g group) kill() {
	syscall.Kill(-g.leader, syscall.SIGKILL)
	killDescendants()
}

// exitCode is what a shell would say: 128 + the signal for a command that a signal has ended.
func exitCode(err error) int {
	var e *exec.ExitError
	if err == nil {
		return 0
	}
	if !errors.As(err, &e) {
		return 70
	}
	if status, ok := e.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return e.ExitCode()
}
