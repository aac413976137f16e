package guardian

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Group is a running command, with its guardian. Its methods may be called concurrently and do not block.
type Group struct {
	orders  chan string
	done    chan struct{}
	started chan struct{}

	pid  int // after started
	code int // after done
	err  error
}

// Start runs the guardian, program with args, and through it the command. until is the first deadline.
func Start(program string, args, env []string) (*Group, error) {
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
	cmd := exec.Command(program, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{controlR, reportW}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what ends our own group shall not end the guardian
	err = cmd.Start()
	controlR.Close()
	reportW.Close()
	if err != nil {
		controlW.Close()
		reportR.Close()
		return nil, err
	}
	g := &Group{orders: make(chan string, 64), done: make(chan struct{}), started: make(chan struct{})}
	go g.write(controlW)
	go g.read(cmd, reportR)
	<-g.started
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
	var once sync.Once
	started := func() { once.Do(func() { close(g.started) }) }
	g.err = errors.New("the guardian process ended")
	for lines := bufio.NewScanner(f); lines.Scan(); {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "started":
			g.pid, _ = strconv.Atoi(rest)
			started()
		case "failed":
			g.err = errors.New(rest)
		case "ended":
			g.code, _ = strconv.Atoi(rest)
			g.err = nil
		}
	}
	if g.err != nil && g.pid > 0 { // nobody watches the command any more
		for n := 0; n < 1000 && !errors.Is(syscall.Kill(-g.pid, 0), syscall.ESRCH); n++ { // a zombie that nobody reaps stays
			group{g.pid}.kill()
			time.Sleep(5 * time.Millisecond)
		}
	}
	cmd.Wait()
	started()
	close(g.done)
}

// Extend moves the deadline to until; never back.
func (g *Group) Extend(until time.Time) { g.order(fmt.Sprintf("until %d\n", int64(Deadline(until)))) }

// Signal forwards a signal to the group.
func (g *Group) Signal(s syscall.Signal) { g.order(fmt.Sprintf("signal %d\n", int(s))) }

// End tells the group to end, and kills it after the grace, or before the deadline if that is sooner.
func (g *Group) End() { g.order("end\n") }

// Done is closed when the command and its group are gone.
func (g *Group) Done() <-chan struct{} { return g.done }

// Result is the exit code of the command, once Done is closed; 128 + the signal's number when a signal has ended it. An
// error: the command could not be started, or the guardian was killed; the group is gone then, too.
func (g *Group) Result() (int, error) { return g.code, g.err }

// Deadline is a time on the clock of the guardian.
func Deadline(until time.Time) time.Duration { return now() + time.Until(until) }
