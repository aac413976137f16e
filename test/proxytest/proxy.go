package proxytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/freeport"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

const (
	readyLimit = 15 * time.Second
	stopLimit  = 20 * time.Second
	pollEvery  = 5 * time.Millisecond
)

// Proxy is a running fenceproxy. Its methods are for one goroutine; addresses and logs are for any.
type Proxy struct {
	binary   string
	upstream string
	flags    []string
	ready    string // path of the admin page that says 200 when the proxy can be used
	listen   string
	admin    string
	cmd      *exec.Cmd
	done     chan struct{}
	log      *logBuffer
}

// Start runs a proxy in front of an upstream DSN until the test ends and waits until it is ready. Flags come behind
// the ones for addresses, e.g. "--fence", "acct=acct".
func Start(t testing.TB, upstream string, flags ...string) *Proxy {
	t.Helper()
	p, err := New(Binary(t), upstream, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("fenceproxy's last lines:\n%s", p.LogTail(4000))
		}
		p.Kill()
	})
	return p
}

// StartHolding is Start for a proxy with --hold: it is waited for until it listens, not until it holds the lock.
func StartHolding(t testing.TB, upstream string, flags ...string) *Proxy {
	t.Helper()
	p, err := begin("/livez", Binary(t), upstream, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("fenceproxy's last lines:\n%s", p.LogTail(4000))
		}
		p.Signal(syscall.SIGCONT)
		p.Kill()
	})
	return p
}

// New runs a binary outside of a test; Kill ends it.
func New(binary, upstream string, flags ...string) (*Proxy, error) {
	return begin("/readyz", binary, upstream, flags...)
}

func begin(ready, binary, upstream string, flags ...string) (*Proxy, error) {
	listen, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	admin, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	p := &Proxy{binary: binary, upstream: upstream, flags: flags, ready: ready, listen: listen, admin: admin, log: &logBuffer{}}
	if err := p.Run(); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// Run starts the process, again after Kill or Stop, on the same addresses, and waits for /readyz.
func (p *Proxy) Run() error {
	args := append([]string{"serve", "--listen", p.listen, "--upstream", p.upstream, "--admin", p.admin}, p.flags...)
	cmd := exec.Command(p.binary, args...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := pgtest.StartWithParent(cmd); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	p.cmd, p.done = cmd, done
	return p.waitReady()
}

func (p *Proxy) waitReady() error {
	last := "no answer"
	for deadline := time.Now().Add(readyLimit); time.Now().Before(deadline); {
		code, body, err := p.Get(p.ready)
		if err == nil && code == http.StatusOK {
			return nil
		}
		if err == nil {
			last = fmt.Sprintf("%d %s", code, body)
		}
		select {
		case <-p.done:
			return fmt.Errorf("proxytest: the proxy ended at start:\n%s", p.LogTail(4000))
		case <-time.After(pollEvery):
		}
	}
	return fmt.Errorf("proxytest: not ready within %v: %s\n%s", readyLimit, last, p.LogTail(4000))
}

// Get asks the admin page.
func (p *Proxy) Get(path string) (code int, body string, err error) {
	resp, err := http.Get("http://" + p.admin + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// Addr is host:port of the listener.
func (p *Proxy) Addr() string { return p.listen }

// Admin is host:port of the admin page.
func (p *Proxy) Admin() string { return p.admin }

// Pid is the process id.
func (p *Proxy) Pid() int { return p.cmd.Process.Pid }

// DSN is a URL through the proxy that libpq, pgx and lib/pq read alike; params come in pairs.
func (p *Proxy) DSN(db, user string, params ...string) string {
	q := url.Values{"sslmode": {"disable"}}
	for i := 0; i+1 < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: p.listen, Path: "/" + db, RawQuery: q.Encode()}
	return u.String()
}

// Connect opens a pgx connection through the proxy with a token ("" for none), closed when the test ends.
func (p *Proxy) Connect(t testing.TB, db, user, token string) *pgx.Conn {
	t.Helper()
	conn, err := p.TryConnect(db, user, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// TryConnect is Connect for tests that expect a refusal; the caller closes the connection.
func (p *Proxy) TryConnect(db, user, token string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(p.DSN(db, user))
	if err != nil {
		return nil, err
	}
	if token != "" {
		config.RuntimeParams["fence.token"] = token
	}
	return pgx.ConnectConfig(context.Background(), config)
}

// Kill ends the process with SIGKILL.
func (p *Proxy) Kill() {
	if p.cmd == nil {
		return
	}
	p.cmd.Process.Kill()
	<-p.done
}

// Stop asks for a clean end with SIGTERM and waits for it.
func (p *Proxy) Stop(t testing.TB) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		t.Fatalf("the proxy still runs %v after SIGTERM:\n%s", stopLimit, p.LogTail(4000))
	}
}

// Done is closed when the process has ended.
func (p *Proxy) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the process.
func (p *Proxy) Signal(s os.Signal) { p.cmd.Process.Signal(s) }

// Log is everything printed so far.
func (p *Proxy) Log() string { return p.log.String() }

// LogTail is at most the last n bytes of it.
func (p *Proxy) LogTail(n int) string {
	s := p.Log()
	return s[max(0, len(s)-n):]
}

// CPU is the time that the process' threads have run so far.
func (p *Proxy) CPU() (time.Duration, error) { return CPU(p.Pid()) }

// CPU sums the run time of a process' threads from schedstat: nanoseconds, where stat has ticks of 10 ms. Threads that
// have ended are not counted.
func CPU(pid int) (time.Duration, error) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if len(paths) == 0 {
		return 0, errors.New("proxytest: no schedstat in /proc")
	}
	var total time.Duration
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		ns, err := strconv.ParseInt(strings.Fields(string(raw) + " 0")[0], 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(ns)
	}
	return total, nil
}

// logBuffer collects what a process prints.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
