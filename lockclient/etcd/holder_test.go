package etcd_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

// holderMain is a holder in a process of its own, which stops itself with SIGSTOP at one step of the protocol.
func holderMain() {
	step := os.Getenv("HOLDER_STEP")
	if step == "" {
		return
	}
	if err := hold(step); err != nil {
		fmt.Println("error", err)
	}
	os.Exit(0)
}

// stopper stops the process once, inside one kind of request.
type stopper struct {
	lockclient.Backend
	step string
	once atomic.Bool
}

func (s *stopper) at(step string) {
	if step == s.step && s.once.CompareAndSwap(false, true) {
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(100 * time.Millisecond) // threads run on for a moment
	}
}

func (s *stopper) Request(ctx context.Context, r lockclient.Request) (lockclient.Claim, error) {
	c, err := s.Backend.Request(ctx, r)
	s.at("acquired")
	return c, err
}

func (s *stopper) Wait(ctx context.Context, c lockclient.Claim) (lockclient.Claim, error) {
	s.at("queued")
	c, err := s.Backend.Wait(ctx, c)
	s.at("served")
	return c, err
}

func (s *stopper) Renew(ctx context.Context, c lockclient.Claim) (time.Duration, error) {
	if c.Held {
		s.at("renewing")
	}
	ttl, err := s.Backend.Renew(ctx, c)
	if c.Held {
		s.at("renewed")
	}
	return ttl, err
}

func (s *stopper) Release(ctx context.Context, c lockclient.Claim) error {
	s.at("releasing")
	return s.Backend.Release(ctx, c)
}

const holderTTL = 2 * time.Second

func hold(step string) error {
	c, err := lockclient.Open(background, os.Getenv("HOLDER_URL"))
	if err != nil {
		return err
	}
	s := &stopper{Backend: c.Backend(), step: step}
	l, err := lockclient.New(s, lockclient.WithTTL(holderTTL)).Lock(background, os.Getenv("HOLDER_LOCK"))
	if err != nil {
		return err
	}
	fmt.Println("acquired", l.Fence().Token, l.Check())
	switch step {
	case "hold":
		select {}
	case "working":
		s.at("working")
		fmt.Println("check", l.Check())
	case "renewing", "renewed":
		for last := time.Now(); ; { // a worker that looks at the clock all the time
			time.Sleep(time.Millisecond)
			err := l.Check()
			if now := time.Now(); now.Sub(last) > holderTTL/2 || err != nil {
				fmt.Println("check", err)
				break
			} else {
				last = now
			}
		}
	}
	fmt.Println("released", l.Release(background))
	return nil
}

// holder is the process, seen from the test.
type holder struct {
	*exec.Cmd
	lines chan string
}

func startHolder(t *testing.T, step, url, lock string) *holder {
	t.Helper()
	h := &holder{Cmd: exec.Command(os.Args[0]), lines: make(chan string, 16)}
	h.Env = append(os.Environ(), "HOLDER_STEP="+step, "HOLDER_URL="+url, "HOLDER_LOCK="+lock)
	out, err := h.StdoutPipe()
	if err == nil {
		err = h.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(h.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			h.lines <- in.Text()
		}
	}()
	t.Cleanup(func() {
		h.Process.Kill()
		h.Wait()
	})
	return h
}

// line is the next line that starts with word.
func (h *holder) line(t *testing.T, word string) string {
	t.Helper()
	select {
	case line := <-h.lines:
		if !strings.HasPrefix(line, word) {
			t.Fatalf("holder says %q, want %s", line, word)
		}
		return line
	case <-time.After(30 * time.Second):
		t.Fatalf("holder does not say %s", word)
	}
	return ""
}

func (h *holder) awaitStop(t *testing.T) {
	t.Helper()
	eventually(t, "the holder does not stop", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
}

// A holder is stopped at each step for longer than its TTL and wakes while somebody else holds the lock: it never takes
// itself for the holder, and what it says first is that it is not.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	url := "etcd://" + strings.TrimPrefix(cluster.Endpoints()[0], "http://") + "/?ttl=2s"
	raw := cluster.Client()
	client := newClient(t, raw)
	for _, step := range []string{"queued", "served", "acquired", "working", "renewing", "renewed", "releasing"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			lock := func() *lockclient.Lease {
				l, err := client.Lock(background, step, lockclient.WithWait(20*time.Second))
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			var mine *lockclient.Lease
			waits := step == "queued" || step == "served"
			if waits {
				mine = lock()
			}
			h := startHolder(t, step, url, step)
			if step == "served" {
				eventually(t, "does not queue", func() bool { return keys(t, raw, step) == 2 })
				mine.Release(background)
			}
			h.awaitStop(t)
			if step == "queued" {
				eventually(t, "the stopped waiter's lease lives", func() bool { return keys(t, raw, step) == 1 })
				mine.Release(background)
			}
			mine = lock() // as soon as the service lets us
			h.Process.Signal(syscall.SIGCONT)
			token := ""
			switch step {
			case "working", "renewing", "renewed":
				h.line(t, "acquired")
				if line := h.line(t, "check"); !strings.Contains(line, "is lost") {
					t.Errorf("first Check after the wake: %s", line)
				}
				h.line(t, "released")
			case "releasing":
				h.line(t, "acquired")
				h.line(t, "released") // of its own claim, and no other: see Confirm below
			default: // it must stand again
				eventually(t, "does not queue again", func() bool { return keys(t, raw, step) == 2 })
				token = mine.Fence().Token.String()
			}
			if err := mine.Confirm(background); err != nil {
				t.Errorf("the new holder: %v", err)
			}
			mine.Release(background)
			if token != "" {
				if line := h.line(t, "acquired"); strings.Contains(line, " "+token+" ") || !strings.HasSuffix(line, "<nil>") {
					t.Errorf("%s, after token %s", line, token)
				}
				h.line(t, "released")
			}
		})
	}
}

// A holder dies: the next one has the lock one TTL later, and what etcd's lessor adds, which looks every 500 ms.
func TestFailover(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	url := "etcd://" + strings.TrimPrefix(cluster.Endpoints()[0], "http://") + "/?ttl=2s"
	h := startHolder(t, "hold", url, "l")
	h.line(t, "acquired")
	raw := cluster.Client()
	client := newClient(t, raw)
	got := make(chan error, 1)
	go func() {
		l, err := client.Lock(background, "l")
		if err == nil {
			defer l.Release(background)
		}
		got <- err
	}()
	eventually(t, "does not queue", func() bool { return keys(t, raw, "l") == 2 })
	h.Process.Kill()
	killed := time.Now()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	took := time.Since(killed)
	t.Logf("failover after kill -9 of the holder: TTL %+v", (took - holderTTL).Round(time.Millisecond))
	if took > holderTTL+2*time.Second { // TTL + 0.6 s is the target; a busy machine is no fault
		t.Errorf("failover took %v", took)
	}
}
