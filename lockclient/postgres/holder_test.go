package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

const (
	holderVariable = "FENCEPROXY_TEST_HOLDER" // DSN and lock of a holder process
	holderTTL      = 800 * time.Millisecond
)

// TestHolderProcess is the holder: it does what it reads, a line at a time, and says how it went.
func TestHolderProcess(t *testing.T) {
	dsn, name, ok := strings.Cut(os.Getenv(holderVariable), "|")
	if !ok {
		t.Skip("only as a child of TestStoppedHolder")
	}
	b, err := Open(ctx, Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	c := lockclient.New(b, lockclient.WithTTL(holderTTL))
	var l *lockclient.Lease
	said := func(err error) string {
		switch {
		case err == nil:
			return "nil"
		case errors.Is(err, lockclient.ErrLost):
			return "lost"
		}
		return "error: " + err.Error()
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "lock":
			if l, err = c.Lock(ctx, name); err == nil {
				fmt.Println("got", l.Fence().Token, said(l.Check()))
			} else {
				fmt.Println(said(err))
			}
		case "check":
			fmt.Println(said(l.Check()))
		case "release":
			fmt.Println(said(l.Release(ctx)))
		}
	}
}

type holder struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out chan string
}

func startHolder(t *testing.T, w *world, name string) *holder {
	t.Helper()
	h := &holder{t: t, out: make(chan string, 10)}
	h.cmd = exec.Command(os.Args[0], "-test.run=^TestHolderProcess$", "-test.v")
	h.cmd.Env = append(os.Environ(), holderVariable+"="+w.c.DSN(w.db, "control")+"|"+name)
	h.cmd.Stderr = os.Stderr
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pgtest.StartWithParent(h.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if s := lines.Text(); !strings.HasPrefix(s, "=== ") {
				h.out <- s
			}
		}
	}()
	t.Cleanup(func() {
		h.cmd.Process.Kill()
		h.cmd.Wait()
	})
	return h
}

func (h *holder) tell(s string) { fmt.Fprintln(h.in, s) }

// signal returns from SIGSTOP when no thread runs any more.
func (h *holder) signal(s syscall.Signal) {
	h.t.Helper()
	h.cmd.Process.Signal(s)
	if s != syscall.SIGSTOP {
		return
	}
	eventually(h.t, "the process stops", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", h.cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			h.t.Fatal("no threads: ", err)
		}
		for _, file := range threads {
			stat, _ := os.ReadFile(file) // pid (comm) state ...
			if _, state, ok := strings.Cut(string(stat), ") "); ok && !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return true
	})
}

func (h *holder) answer() string {
	h.t.Helper()
	select {
	case s := <-h.out:
		return s
	case <-time.After(patience):
		h.t.Fatal("no answer")
		return ""
	}
}

// freeze holds a row until it is thawed, so that the server is in the middle of what the holder has asked it.
func (w *world) freeze(sql string) (thaw func()) {
	w.t.Helper()
	tx, err := w.c.Connect(w.t, w.db, "postgres").Begin(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, sql); err != nil {
		w.t.Fatal(err)
	}
	return func() { tx.Commit(context.Background()) }
}

func (w *world) blocked() bool {
	return w.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'control' AND wait_event_type = 'Lock'") != "0"
}

// The holder is stopped for longer than its TTL at each step, and others take the lock meanwhile. Awake again it knows at
// its first look that it has lost; what the server had answered before is worth nothing then.
func TestStoppedHolder(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{})
	take := func(t *testing.T, name string) *lockclient.Lease {
		t.Helper()
		l, err := c.Lock(ctx, name, lockclient.WithWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	lease := func(name string) string { return "SELECT FROM fence.lease WHERE name = '" + name + "' FOR UPDATE" }

	t.Run("acquired", func(t *testing.T) {
		name := lockName()
		h := startHolder(t, w, name)
		h.tell("lock")
		if s := h.answer(); !strings.HasSuffix(s, "nil") {
			t.Fatal(s)
		}
		h.signal(syscall.SIGSTOP)
		l := take(t, name)
		h.signal(syscall.SIGCONT)
		h.tell("check")
		if s := h.answer(); s != "lost" {
			t.Error(s)
		}
		h.tell("release")
		if s := h.answer(); s != "nil" && s != "lost" {
			t.Error(s)
		}
		if err := l.Confirm(ctx); err != nil {
			t.Error("the late release ended another's lock:", err)
		}
		l.Release(ctx)
	})

	t.Run("acquiring", func(t *testing.T) { // the grant is on its way when the process stops
		name := lockName()
		h := startHolder(t, w, name)
		thaw := w.freeze("SELECT FROM fence.issuer FOR UPDATE")
		h.tell("lock")
		eventually(t, "it asks", w.blocked)
		h.signal(syscall.SIGSTOP)
		thaw()
		eventually(t, "granted", func() bool {
			return w.text("SELECT count(*) FROM fence.lease WHERE name = '"+name+"' AND claim IS NOT NULL") == "1"
		})
		first := w.mark(name)
		l := take(t, name)
		h.signal(syscall.SIGCONT)
		if err := l.Confirm(ctx); err != nil {
			t.Error(err)
		}
		l.Release(ctx)
		s := h.answer()
		if !strings.HasPrefix(s, "got ") || strings.Contains(s, "got "+first+" ") || strings.Contains(s, "got "+l.Fence().Token.String()+" ") {
			t.Errorf("%s, after %s and %s", s, first, l.Fence().Token)
		}
	})

	t.Run("renewing", func(t *testing.T) {
		name := lockName()
		h := startHolder(t, w, name)
		h.tell("lock")
		h.answer()
		thaw := w.freeze(lease(name))
		eventually(t, "it renews", w.blocked)
		h.signal(syscall.SIGSTOP)
		thaw()
		l := take(t, name)
		h.signal(syscall.SIGCONT)
		h.tell("check")
		if s := h.answer(); s != "lost" {
			t.Error(s)
		}
		l.Release(ctx)
	})

	t.Run("releasing", func(t *testing.T) {
		name := lockName()
		h := startHolder(t, w, name)
		h.tell("lock")
		h.answer()
		thaw := w.freeze(lease(name))
		h.tell("release")
		eventually(t, "it releases", w.blocked)
		h.signal(syscall.SIGSTOP)
		thaw()
		l := take(t, name)
		h.signal(syscall.SIGCONT)
		h.answer()
		if err := l.Confirm(ctx); err != nil {
			t.Error("the late release ended another's lock:", err)
		}
		l.Release(ctx)
	})

	t.Run("queued", func(t *testing.T) {
		name := lockName()
		l := take(t, name)
		h := startHolder(t, w, name)
		h.tell("lock")
		eventually(t, "queued", func() bool {
			return w.text("SELECT count(*) FROM fence.ticket WHERE name = '"+name+"' AND waits") == "1"
		})
		h.signal(syscall.SIGSTOP)
		l.Release(ctx)
		l = take(t, name)
		h.signal(syscall.SIGCONT)
		l.Release(ctx)
		if s := h.answer(); !strings.HasSuffix(s, "nil") || strings.Contains(s, " "+l.Fence().Token.String()+" ") {
			t.Error(s)
		}
	})
}
