package guardian

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Group is a running command, with its guardian. Its methods may be called concurrently and do not block.
type Group struct {
	guardian *os.Process
	orders   chan string
	done     chan struct{}
	before   map[int]bool // our children from before: they are not the command's

	pid  atomic.Int64 // 0 before the guardian has told it
	code int          // after done
	late bool
	err  error
}

// StartError says why a command could not be started.
type StartError struct {
	Code int // the exit code that tells it: 126, 127, 70
	Text string
}

func (e *StartError) Error() string { return e.Text }

// Start runs the guardian, program with the args that args makes of the numbers of its open files, and through it the
// command. keep, unless nil, stays open for as long as the guardian lives. Start adopts the orphans of this process'
// descendants from now on, to find them if the guardian is killed.
func Start(program string, args func(fds []int) []string, env []string, keep *os.File) (*Group, error) {
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		controlR.Close()
		controlW.Close()
		return nil, err
	}
	files := []*os.File{controlR, reportW}
	if keep != nil {
		files = append(files, keep)
	}
	var fds []int
	for _, f := range files {
		err = errors.Join(err, inherit(f))
		fds = append(fds, int(f.Fd()))
	}
	g := &Group{orders: make(chan string, 64), done: make(chan struct{}), before: map[int]bool{}}
	for _, pid := range descendants(nil) {
		g.before[pid] = true
	}
	adoptOrphans()
	cmd := exec.Command(program, args(fds)...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what ends our own group shall not end the guardian
	if err == nil {
		err = cmd.Start()
	}
	controlR.Close()
	reportW.Close() // else we never see its end
	if err != nil {
		controlW.Close()
		reportR.Close()
		return nil, err
	}
	g.guardian = cmd.Process
	go g.write(controlW)
	go g.read(cmd, reportR)
	return g, nil
}

// write never keeps the caller waiting: a guardian that is stopped does not read.
func (g *Group) write(f *os.File) {
	defer f.Close()
	for {
		select {
		case line := <-g.orders:
			if _, err := f.WriteString(line); err != nil {
				return
			}
		case <-g.done:
			return
		}
	}
}

func (g *Group) order(line string) {
	select {
	case g.orders <- line:
	default: // it has stopped reading: the deadline it knows stands
	}
}

func (g *Group) read(cmd *exec.Cmd, f *os.File) {
	defer f.Close()
	killed := errors.New("the guardian process ended")
	g.err = killed
	for lines := bufio.NewScanner(f); lines.Scan(); {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "started":
			pid, _ := strconv.Atoi(rest)
			g.pid.Store(int64(pid))
		case "failed":
			code, text, _ := strings.Cut(rest, " ")
			e := &StartError{Text: text}
			e.Code, _ = strconv.Atoi(code)
			g.err = e
		case "late":
			g.late = true
		case "ended":
			g.code, _ = strconv.Atoi(rest)
			g.err = nil
		}
	}
	cmd.Wait()
	if g.err == killed {
		g.sweep()
	}
	close(g.done)
}

// sweep does what the guardian, which is dead, can do no more. It returns when nobody is left, however long that takes: a
// process that does not even die works under our lock.
func (g *Group) sweep() {
	left := group{int(g.pid.Load())}
	for pause := time.Millisecond; g.strike() > 0 || !left.dead(); pause = min(2*pause, Look) {
		time.Sleep(pause)
		for { // those that we have adopted
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
				break
			}
		}
	}
}

// strike kills everybody and reports how many descendants there were.
func (g *Group) strike() int {
	group{int(g.pid.Load())}.signal(syscall.SIGKILL)
	return killDescendants(g.before)
}

// Kill ends the command and all that it has started, at once, and the guardian, which is late: Result says that it is dead.
func (g *Group) Kill() {
	select {
	case <-g.done:
	default:
		g.strike()
		g.guardian.Kill()
	}
}

// Extend moves the deadline to until; never back.
func (g *Group) Extend(until time.Time) { g.order(fmt.Sprintf("until %d\n", int64(Deadline(until)))) }

// Signal forwards a signal to the group.
func (g *Group) Signal(s syscall.Signal) { g.order(fmt.Sprintf("signal %d\n", int(s))) }

// End tells the group to end, and kills it after the grace, or before the deadline if that is sooner.
func (g *Group) End() { g.order("end\n") }

// Done is closed when the command and its group are gone.
func (g *Group) Done() <-chan struct{} { return g.done }

// Result is the exit code of the command, once Done is closed; 128 + the signal's number when a signal has ended it. A
// *StartError: there was no command. Any other error: the guardian was killed; all of the command is gone then, too.
func (g *Group) Result() (int, error) { return g.code, g.err }

// Late reports, once Done is closed, whether the guardian has told the command to end because it had heard of no renewal in
// time, not because of an order.
func (g *Group) Late() bool { return g.late }

// Deadline is a time on the clock of the guardian.
func Deadline(until time.Time) time.Duration { return now() + time.Until(until) }
