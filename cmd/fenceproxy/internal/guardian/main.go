package guardian

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Limits are when a group is ended before its deadline: told to end (SIGTERM) Grace before, killed Margin before.
type Limits struct {
	Grace, Margin time.Duration
}

// Look is the longest sleep of whoever watches a deadline: a timer stands still while the machine is suspended.
const Look = 100 * time.Millisecond

// Main is the guardian process: it runs the command and returns when the group is gone. until is the first deadline, fds
// the open files that Start has handed over.
func Main(argv []string, until time.Duration, limits Limits, fds []int, tty bool) error {
	if len(fds) < 2 {
		return fmt.Errorf("%d files were handed over, not two", len(fds))
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	report := os.NewFile(uintptr(fds[1]), "report")
	// Signals are for the command, and the wrapper forwards them. Caught, not ignored: that would be inherited.
	signals := make(chan os.Signal, 1)
	for _, s := range inheritable {
		if !Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	KeepIgnored()
	adoptOrphans()
	runtime.LockOSThread() // the parent-death signal comes when this thread ends

	cmd := exec.Command(argv[0])
	cmd.Args = argv
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: tty, Ctty: 0}
	dieWithUs(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(report, "failed %d %s\n", startCode(err), strings.ReplaceAll(startText(argv[0], err), "\n", " "))
		return nil
	}
	fmt.Fprintf(report, "started %d\n", cmd.Process.Pid)
	w := &watch{group: group{cmd.Process.Pid}, limits: limits, until: until, report: report}
	code := w.run(newOrders(fds[0]), reap(cmd.Process.Pid))
	fmt.Fprintf(report, "ended %d\n", code)
	return nil
}

// reap waits for all our children, adopted ones too, and tells how the leader has ended.
func reap(leader int) <-chan syscall.WaitStatus {
	ended := make(chan syscall.WaitStatus, 1)
	go func() {
		for {
			var s syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &s, 0, nil)
			switch {
			case pid == leader:
				ended <- s
				leader = 0
			case err != nil && err != syscall.EINTR: // nobody is left
				return
			}
		}
	}()
	return ended
}

// watch is the guardian's view of the group.
type watch struct {
	group  group
	limits Limits
	until  time.Duration
	report io.Writer
	told   bool          // SIGTERM was sent, for good
	killAt time.Duration // then
	lost   bool          // the lock is or will be: nothing that descends from the command may go on
}

// end tells the group to end, and gives it the grace for that, or what the deadline leaves of it.
func (w *watch) end() {
	if w.told {
		return
	}
	w.told = true
	w.killAt = min(now()+w.limits.Grace, w.until-w.limits.Margin)
	w.group.signal(syscall.SIGTERM)
}

func (w *watch) kill() {
	w.group.signal(syscall.SIGKILL)
	if w.lost {
		killDescendants(nil)
	}
}

// obey does what the wrapper has written; its death is an order too.
func (w *watch) obey(all []order, dead bool) {
	for _, o := range all {
		switch o.verb {
		case "until":
			w.until = max(w.until, time.Duration(o.value))
		case "signal":
			w.group.signal(syscall.Signal(o.value))
		case "end":
			w.lost = true
			w.end()
		}
	}
	if dead {
		w.lost = true
		w.end()
	}
}

func (w *watch) run(orders *orders, ended <-chan syscall.WaitStatus) (code int) {
	over := false
	for {
		w.obey(orders.take()) // first: the deadline may have moved
		t := now()
		if t >= w.until-w.limits.Grace {
			if !over && !w.told {
				fmt.Fprintln(w.report, "late")
			}
			w.lost = true
			w.end()
		}
		killing := w.told && t >= w.killAt
		if killing {
			w.kill()
		}
		if over && (w.group.gone() || killing && w.group.dead()) && (!w.lost || killDescendants(nil) == 0) {
			return code
		}
		timer := time.NewTimer(w.pause(t, over))
		select {
		case <-orders.more:
		case s := <-ended:
			over, code = true, exitCode(s)
			if !w.group.gone() { // the lock is not for what the command has left behind
				w.end()
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (w *watch) pause(t time.Duration, over bool) time.Duration {
	d := Look
	if over {
		d = 5 * time.Millisecond
	}
	next := w.until - w.limits.Grace
	if w.told {
		next = w.killAt
	}
	return max(min(d, next-t), 5*time.Millisecond)
}
