package torture

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// hand is a worker's process, which may be killed and hired anew.
type hand struct {
	number      int
	incarnation int
	cmd         *exec.Cmd
	in          io.WriteCloser
	over        chan struct{} // a value: the order was carried out; closed: the process has ended

	mu      sync.Mutex
	stopped bool
}

// crew is all the workers, and what they tell.
type crew struct {
	hands []*hand

	mu     sync.Mutex
	events []Event
}

func (c *crew) hire(n int) error {
	for i := range n {
		h := &hand{number: i}
		if err := c.start(h); err != nil {
			return err
		}
		c.hands = append(c.hands, h)
	}
	return nil
}

func (c *crew) start(h *hand) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVar+"=1", "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := pgtest.StartWithParent(cmd); err != nil {
		return err
	}
	over := make(chan struct{}, 16)
	go func() {
		defer close(over)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var e Event
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				continue // the last line of one that was killed
			}
			if e.Op == "over" {
				over <- struct{}{}
				continue
			}
			c.mu.Lock()
			c.events = append(c.events, e)
			c.mu.Unlock()
		}
		cmd.Wait()
	}()
	h.incarnation++
	h.cmd, h.in, h.over = cmd, in, over
	return nil
}

func (h *hand) order(o order) error {
	o.Worker, o.Incarnation, o.Parts = h.number, h.incarnation, cast(h.number)
	return json.NewEncoder(h.in).Encode(o)
}

// stop and goOn send SIGSTOP and SIGCONT.
func (h *hand) stop() { h.signal(syscall.SIGSTOP, true) }
func (h *hand) goOn() { h.signal(syscall.SIGCONT, false) }

func (h *hand) signal(s syscall.Signal, stopped bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cmd.Process.Signal(s)
	h.stopped = stopped
}

// kill ends the process with SIGKILL, and another takes its place.
func (c *crew) kill(h *hand) error {
	h.cmd.Process.Kill()
	for range h.over {
	}
	h.in.Close()
	return c.start(h)
}

// wait until the order was carried out; who takes too long is killed.
func (c *crew) wait(h *hand, limit time.Duration) error {
	h.goOn()
	select {
	case _, ok := <-h.over:
		if ok {
			return nil
		}
	case <-time.After(limit):
	}
	return c.kill(h)
}

// take returns what was told since the last call.
func (c *crew) take() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.events
	c.events = nil
	return all
}

func (c *crew) dismiss() {
	for _, h := range c.hands {
		h.cmd.Process.Kill()
		for range h.over {
		}
	}
}
