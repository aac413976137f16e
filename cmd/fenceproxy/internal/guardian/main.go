package guardian

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits are when a group is ended before its deadline: told to end (SIGTERM) Grace before, killed Margin before.
type Limits struct {
	Grace, Margin time.Duration
}

// look is the longest sleep: a timer stands still while the machine is suspended.
const look = 100 * time.Millisecond

// The pipes' descriptors in the guardian (exec.Cmd.ExtraFiles).
const (
	controlFD = 3
	reportFD  = 4
)

// Main is the guardian process: it runs the command and returns when the group is gone. until is the first deadline.
func Main(argv []string, until time.Duration, limits Limits, tty bool) error {
	control, report := os.NewFile(controlFD, "control"), os.NewFile(reportFD, "report")
	syscall.CloseOnExec(controlFD)
	syscall.CloseOnExec(reportFD)
	// Signals are for the command, and the wrapper forwards them. Caught, not ignored: that would be inherited.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)
	adoptOrphans()
	runtime.LockOSThread() // the parent-death signal comes when this thread ends

	cmd := exec.Command(argv[0])
	cmd.Args = argv
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: tty, Ctty: 0}
	dieWithUs(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(report, "failed %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	fmt.Fprintf(report, "started %d\n", cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	w := &watch{group: group{cmd.Process.Pid}, limits: limits, until: until}
	code := w.run(commands(control), ended)
	fmt.Fprintf(report, "ended %d\n", code)
	return nil
}

// command is a line of the wrapper; the zero command is its death.
type command struct {
	verb  string
	value int64
}

func commands(r io.Reader) <-chan command {
	ch := make(chan command)
	go func() {
		defer close(ch)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			verb, value, _ := strings.Cut(lines.Text(), " ")
			n, _ := strconv.ParseInt(value, 10, 64)
			ch <- command{verb, n}
		}
	}()
	return ch
}

// watch is the guardian's view of the group.
type watch struct {
	group  group
	limits Limits
	until  time.Duration
	told   bool          // SIGTERM was sent, for good
	killAt time.Duration // then
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

func (w *watch) run(orders <-chan command, ended <-chan error) (code int) {
	over := false
	for {
		if over && w.group.gone() {
			return code
		}
		t := now()
		if t >= w.until-w.limits.Grace {
			w.end()
		}
		if w.told && t >= w.killAt {
			w.group.kill()
		}
		timer := time.NewTimer(w.pause(t, over))
		select {
		case o, ok := <-orders:
			switch {
			case !ok:
				orders = nil
				w.end()
			case o.verb == "until":
				w.until = max(w.until, time.Duration(o.value))
			case o.verb == "signal":
				w.group.signal(syscall.Signal(o.value))
			case o.verb == "end":
				w.end()
			}
		case err := <-ended:
			over, ended, code = true, nil, exitCode(err)
			if !w.group.gone() { // the lock is not for what the command has left behind
				w.end()
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (w *watch) pause(t time.Duration, over bool) time.Duration {
	d := look
	if over {
		d = 5 * time.Millisecond
	}
	next := w.until - w.limits.Grace
	if w.told {
		next = w.killAt
	}
	return max(min(d, next-t), 5*time.Millisecond)
}
