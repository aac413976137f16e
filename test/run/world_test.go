package run

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/lockclient/postgres"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func TestMain(m *testing.M) {
	etcdtest.Main() // returns unless this process is an etcd member
	os.Unsetenv("FENCEPROXY_BACKEND")
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // else commands would ignore it where this process does, as under nohup
	pgtest.Main(m, proxytest.Cleanup)
}

var ctx = context.Background()

const (
	patience = time.Minute
	// A machine that runs the other tests as well may wake a process a tenth of a second late. The guarantee is that the
	// children are dead before the window ends, so the times are such that there is as much between the killing, a quarter
	// of a second before, and the end.
	ttl   = 3 * time.Second
	grace = ttl / 2
)

// world is a database with the fence schema, and a contender for its locks.
type world struct {
	t      *testing.T
	c      *pgtest.Cluster
	db     string
	client *lockclient.Client
}

func newWorld(t *testing.T, c *pgtest.Cluster) *world {
	t.Helper()
	w := &world{t: t, c: c, db: c.NewDatabase(t)}
	proxytest.Install(t, c.DSN(w.db, "postgres"))
	b, err := postgres.Open(ctx, postgres.Config{DSN: w.url()})
	if err != nil {
		t.Fatal(err)
	}
	w.client = lockclient.New(b)
	t.Cleanup(func() { w.client.Close() })
	return w
}

func (w *world) url() string { return w.c.DSN(w.db, "postgres") }

// process is a running fenceproxy. All its descendants have a mark of their own in their environment.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	mark string
	in   io.WriteCloser
	done chan struct{}
	out  *output
	err  *output
}

type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

var marks atomic.Int64

func (w *world) start(args ...string) *process { return w.begin(start{args: args}) }

// startWithInput keeps standard input open until p.in is closed.
func (w *world) startWithInput(args ...string) *process {
	return w.begin(start{args: args, input: true})
}

// shell runs a script in which $fenceproxy is the binary.
func (w *world) shell(script string) *process {
	return w.begin(start{program: "bash", args: []string{"-c", script}, input: true})
}

type start struct {
	program string // "" is fenceproxy
	args    []string
	input   bool
	out     *os.File
}

func (w *world) begin(s start) *process {
	w.t.Helper()
	p := &process{t: w.t, mark: fmt.Sprintf("RUN_TEST_MARK=%d.%d.", os.Getpid(), marks.Add(1)), done: make(chan struct{}), out: &output{}, err: &output{}}
	binary := proxytest.Binary(w.t)
	if s.program == "" {
		s.program = binary
	}
	p.cmd = exec.Command(s.program, s.args...)
	p.cmd.Env = append(os.Environ(), p.mark, "FENCEPROXY_BACKEND="+w.url(), "fenceproxy="+binary)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if s.out != nil {
		p.cmd.Stdout = s.out
	}
	if s.input {
		in, err := p.cmd.StdinPipe()
		if err != nil {
			w.t.Fatal(err)
		}
		p.in = in
	}
	p.cmd.WaitDelay = time.Second // a descendant may keep the pipes open
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := pgtest.StartWithParent(p.cmd); err != nil {
		w.t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	w.t.Cleanup(func() {
		p.cmd.Process.Kill()
		for _, pid := range p.all() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-p.done
	})
	return p
}

// run is start with the flags of a test, for a shell script.
func (w *world) run(lock, script string, flags ...string) *process {
	w.t.Helper()
	args := append([]string{"run", "--lock", lock, "--ttl", ttl.String(), "--grace", grace.String()}, flags...)
	return w.start(append(args, "--", "sh", "-c", script)...)
}

func (p *process) kill(s syscall.Signal) { syscall.Kill(p.cmd.Process.Pid, s) }

func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("still runs\n%s%s", p.out, p.err)
		return -1
	}
}

func (p *process) wantExit(code int) {
	p.t.Helper()
	if got := p.exit(); got != code {
		p.t.Errorf("exit code %d, want %d\n%s%s", got, code, p.out, p.err)
	}
}

func (p *process) says(text string) {
	p.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(p.out.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("never: %q in\n%s%s", text, p.out, p.err)
		}
	}
}

// all are the living processes with the mark.
func (p *process) all() (pids []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(raw, []byte(p.mark)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		pids = append(pids, pid)
	}
	return pids
}

// children are those that are not fenceproxy's own.
func (p *process) children() (found []string) {
	for _, pid := range p.all() {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || strings.Contains(filepath.Base(exe), "fenceproxy") {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		found = append(found, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return found
}

// guardian is the pid of the wrapper's guardian.
func (p *process) guardian() int {
	p.t.Helper()
	for _, pid := range p.all() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Contains(line, []byte("run-guardian")) {
			return pid
		}
	}
	p.t.Fatal("no guardian")
	return 0
}

// wantGone waits until no child is left, and fails when one was seen after the limit: from now, which is later than the last
// renewal that was answered. It goes by when a look began that saw one: on a busy machine looking takes long.
func (p *process) wantGone(limit time.Duration) {
	p.t.Helper()
	begin, seen := time.Now(), time.Duration(0)
	eventually(p.t, "the children are gone", func() bool {
		look := time.Since(begin)
		if len(p.children()) == 0 {
			return true
		}
		seen = look
		return false
	})
	if seen > limit {
		p.t.Errorf("a child lived %v, longer than the window", seen)
	}
}

// runUp is run with a script that says "up", which it has. On a machine that is starved the lock may be lost before.
func (w *world) runUp(lock, script string, flags ...string) *process {
	w.t.Helper()
	for try := 0; ; try++ {
		p := w.run(lock, script, flags...)
		ended := false
		eventually(w.t, "up or ended", func() bool {
			select {
			case <-p.done:
				ended = true
			default:
			}
			return ended || strings.Contains(p.out.String(), "up")
		})
		if !ended || p.exit() != 76 || try == 5 {
			p.says("up")
			return p
		}
	}
}

// nextHolder waits for the lock, and tells what is left of the process' children at the moment when it has it.
func (w *world) nextHolder(lock string, p *process) (left []string, waited time.Duration) {
	w.t.Helper()
	begin := time.Now()
	l, err := w.client.Lock(ctx, lock, lockclient.WithWait(patience))
	if err != nil {
		w.t.Fatalf("%v\n%s%s", err, p.out, p.err)
	}
	left, waited = p.children(), time.Since(begin)
	if err := l.Release(ctx); err != nil {
		w.t.Error(err)
	}
	return left, waited
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}
