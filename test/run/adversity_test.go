package run

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/lockclient/postgres"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// A lock service that cannot be asked is like a lock that cannot be had, whichever it is and however it fails: 75, soon,
// with the reason, and no word about usage.
func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, by its backlog, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	cluster := etcdtest.Start(t, 1)
	frozen := strings.TrimPrefix(cluster.Endpoints()[0], "http://")
	cluster.Stop(0)
	t.Cleanup(func() { cluster.Continue(0) })
	w := newWorld(t, pgtest.Shared(t))
	for _, url := range []string{
		"etcd://127.0.0.1:1/?dial=500ms", "etcd://" + silent.Addr().String() + "/?dial=500ms", "etcd://" + frozen + "/?dial=500ms",
		"postgres://x@127.0.0.1:1/x", "postgres://x@" + silent.Addr().String() + "/x?connect_timeout=1",
	} {
		for _, args := range [][]string{
			{"run", "--lock", "a", "--try", "--", "true"}, {"run", "--lock", "a", "--", "true"}, {"lock", "a", "--try"}, {"lock", "a"},
			{"watch", "a"}, {"elect", "a", "--id", "x"},
		} {
			t.Run(strings.Join(args[:2], " ")+" "+url, func(t *testing.T) {
				t.Parallel()
				w := &world{t: t, c: w.c, db: w.db}
				args := append([]string{args[0], "--backend", url}, args[1:]...)
				begin := time.Now()
				p := w.startWithInput(args...)
				p.wantExit(75)
				if said := p.err.String(); !strings.Contains(said, "not available") || strings.Contains(said, "--help") {
					t.Error(said)
				}
				if d := time.Since(begin); d > 20*time.Second { // 30 s is the limit where there is no other
					t.Error("after", d)
				}
			})
		}
	}
}

// PostgreSQL is frozen, not dead: run is gone when the window is, and not when PostgreSQL wakes.
func TestServerFrozen(t *testing.T) {
	for _, mode := range []string{"lease", "advisory"} {
		t.Run(mode, func(t *testing.T) {
			c := pgtest.Start(t)
			w := newWorld(t, c)
			p := w.runUp("x", stubborn["forks"], "--backend", w.url()+"&mode="+mode)
			waiter := w.run("x", "true", "--backend", w.url()+"&mode="+mode, "--wait", "4s")
			eventually(t, "queued", func() bool { return w.waiting() == 1 })
			defer freeze(c)()
			begin := time.Now()
			p.wantGone(ttl)
			p.wantExit(76)
			if d := time.Since(begin); d > ttl+10*time.Second {
				t.Error("run ended after", d)
			}
			waiter.wantExit(75)
			if d := time.Since(begin); d > 15*time.Second {
				t.Error("the waiter ended after", d)
			}
		})
	}
}

// The guardian is stopped when the lock is lost: the wrapper kills everything itself, in time.
func TestGuardianStopped(t *testing.T) {
	for child, script := range stubborn {
		t.Run(child, func(t *testing.T) {
			w := newWorld(t, pgtest.Shared(t))
			t.Parallel()
			p := w.runUp("x", script)
			syscall.Kill(p.guardian(), syscall.SIGSTOP)
			lose(w, "x")
			p.wantGone(ttl)
			p.wantExit(76)
		})
	}
}

// The guardian was stopped for longer than the window while run went on renewing: awake again, it first hears of the renewals.
// So it is on a machine that is starved. Mutant "the guardian hears of renewals before it looks at the clock": red.
func TestGuardianStoppedForAWhile(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	end := filepath.Join(t.TempDir(), "end")
	p := w.runUp("x", `echo up; while ! test -e `+end+`; do sleep 0.02; done; echo over`)
	guardian := p.guardian()
	syscall.Kill(guardian, syscall.SIGSTOP)
	first := w.expiry("x")
	eventually(t, "two renewals, and the end of the first window", func() bool { return w.expiry("x") > first+ttl })
	syscall.Kill(guardian, syscall.SIGCONT)
	eventually(t, "it has looked", func() bool { return w.expiry("x") > first+2*ttl })
	os.WriteFile(end, nil, 0o600)
	p.wantExit(0)
	p.says("over")
}

// expiry is when the lease ends, unless it is renewed.
func (w *world) expiry(lock string) (at time.Duration) {
	w.t.Helper()
	conn := w.c.Connect(w.t, w.db, "postgres")
	defer conn.Close(ctx)
	var s float64
	if err := conn.QueryRow(ctx, "SELECT extract(epoch FROM expires_at)::float8 FROM fence.lease WHERE name = $1", lock).Scan(&s); err != nil {
		w.t.Fatal(err)
	}
	return time.Duration(s * float64(time.Second))
}

// A guardian that begins too late, or hears of no renewal, ends the command and says so: it was not the command's own end.
func TestGuardianIsLate(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	fifo := filepath.Join(t.TempDir(), "orders")
	p := w.shell("mkfifo " + fifo + "; exec 3<>" + fifo + ` 4>&1; "$fenceproxy" run-guardian --until 1 --grace 1s --margin 100ms --fd 3 --fd 4 -- sleep 1000`)
	p.wantExit(0)
	if lines := strings.Split(p.out.String(), "\n"); len(lines) != 4 || lines[1] != "late" {
		t.Errorf("%q %s", lines, p.err)
	}
}

// lose gives the lock to somebody else, by force.
func lose(w *world, lock string) {
	w.t.Helper()
	w.c.Exec(w.t, w.db, "UPDATE fence.lease SET claim = 'somebody else', expires_at = clock_timestamp() + interval '1 min' WHERE name = '"+lock+"'")
}

// The guardian is killed: whatever descends from the command is killed before the lock is released, and that is soon.
// Mutant "the wrapper adopts nobody": red.
func TestGuardianKilledDescendants(t *testing.T) {
	for child, script := range stubborn {
		t.Run(child, func(t *testing.T) {
			w := newWorld(t, pgtest.Shared(t))
			t.Parallel()
			p := w.runUp("g", script, "--ttl", "1m")
			syscall.Kill(p.guardian(), syscall.SIGKILL)
			begin := time.Now()
			left, _ := w.nextHolder("g", p)
			if len(left) > 0 {
				t.Error("left:", left)
			}
			if d := time.Since(begin); d > 10*time.Second {
				t.Error("the lock was free after", d)
			}
			p.wantExit(70)
		})
	}
}

// An advisory lock ends with its connection. The guardian has the connection as well, so that the death of the wrapper does
// not end it before the command is gone; when the server ends it, the command is killed at once. Mutant "the guardian has
// no copy": red.
func TestAdvisory(t *testing.T) {
	c := pgtest.Shared(t)
	for way, strike := range map[string]func(w *world, p *process){
		"wrapper killed":  func(_ *world, p *process) { p.kill(syscall.SIGKILL) },
		"wrapper stopped": func(_ *world, p *process) { p.kill(syscall.SIGSTOP) },
		"guardian killed": func(_ *world, p *process) { syscall.Kill(p.guardian(), syscall.SIGKILL) },
	} {
		for child, script := range stubborn {
			t.Run(way+"/"+child, func(t *testing.T) {
				w := advisoryWorld(t, c)
				t.Parallel()
				p := w.runUp("x", script, "--backend", w.url()+"&mode=advisory")
				strike(w, p)
				if left, waited := w.nextHolder("x", p); len(left) > 0 {
					t.Errorf("the lock is another's after %v, and there is still\n%s", waited, strings.Join(left, "\n"))
				}
			})
		}
	}
	t.Run("session ended", func(t *testing.T) {
		w := advisoryWorld(t, c)
		p := w.runUp("x", stubborn["forks"], "--backend", w.url()+"&mode=advisory", "--ttl", "30s", "--grace", "10s")
		begin := time.Now()
		w.c.Exec(t, w.db, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1")
		p.wantExit(76)
		if d := time.Since(begin); d > 8*time.Second {
			t.Error("after", d)
		}
	})
}

func advisoryWorld(t *testing.T, c *pgtest.Cluster) *world {
	w := newWorld(t, c)
	b, err := postgres.Open(ctx, postgres.Config{DSN: w.url(), Mode: postgres.Advisory})
	if err != nil {
		t.Fatal(err)
	}
	w.client = lockclient.New(b)
	t.Cleanup(func() { w.client.Close() })
	return w
}

// What is no program, and what its first line names and is not there, as a shell tells it. The lock is released.
func TestNotExecutable(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, tc := range []struct {
		what, command string
		code          int
		err           string
	}{
		{"no program", file("not a program\n"), 126, "exec format error"},
		{"no interpreter", file("#!/no/such/interpreter\n"), 127, "no such file"},
		{"a directory", t.TempDir(), 126, "is a directory"},
	} {
		p := w.start("run", "--lock", "a", "--", tc.command)
		if got := p.exit(); got != tc.code || !strings.Contains(p.err.String(), tc.err) {
			t.Errorf("%s: exit code %d, want %d\n%s", tc.what, got, tc.code, p.err)
		}
	}
	if l, err := w.client.TryLock(ctx, "a"); err != nil {
		t.Error("not released:", err)
	} else {
		l.Release(ctx)
	}
}

// Output that cannot be written is not a lock that cannot be had, and no reason to keep one.
func TestOutputFails(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	r, unread, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	r.Close()
	for _, args := range [][]string{{"lock", "a"}, {"lock", "a", "--json"}, {"elect", "a", "--id", "x"}, {"elect", "a", "--id", "x", "--json"}, {"watch", "a"}} {
		for what, out := range map[string]*os.File{"no space left": full, "broken pipe": unread} {
			if args[0] == "watch" && out == unread {
				continue // it holds nothing, and ends by SIGPIPE like everybody
			}
			p := w.begin(start{args: args, input: true, out: out})
			p.wantExit(74)
			if !strings.Contains(p.err.String(), what) {
				t.Errorf("%v: %s", args, p.err)
			}
			if l, err := w.client.TryLock(ctx, "a"); err != nil {
				t.Errorf("%v: not released: %v", args, err)
			} else {
				l.Release(ctx)
			}
		}
	}
}

// waiting counts those that wait for a lock, of either kind.
func (w *world) waiting() (n int) {
	conn := w.c.Connect(w.t, w.db, "postgres")
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM fence.ticket WHERE waits) + (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)").Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// freeze stops all processes of the server until thaw.
func freeze(c *pgtest.Cluster) (thaw func()) {
	var stopped []int
	send := func(pid int, s syscall.Signal) { syscall.Kill(pid, s) }
	send(c.Pid(), syscall.SIGSTOP) // it has no more children from now on
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if len(fields) > 1 && fields[1] == strconv.Itoa(c.Pid()) {
			send(pid, syscall.SIGSTOP)
			stopped = append(stopped, pid)
		}
	}
	return func() {
		for _, pid := range append(stopped, c.Pid()) {
			send(pid, syscall.SIGCONT)
		}
	}
}

// Signals that were ignored when run began, by nohup, by trap "" or for a background job, are ignored by the command as
// they would be without run, and by run.
func TestIgnoredSignals(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	mask := `grep SigIgn /proc/self/status`
	for _, before := range []string{":", `trap "" HUP`, `trap "" INT QUIT`, `trap "" HUP INT QUIT TERM USR1 USR2 PIPE`} {
		p := w.shell(before + "; " + mask + `; "$fenceproxy" run --lock mask -- ` + mask)
		p.wantExit(0)
		lines := strings.Fields(p.out.String())
		if len(lines) != 4 || lines[1] != lines[3] {
			t.Errorf("%s: ignored without and with run: %q\n%s", before, lines, p.err)
		}
	}
	go_ := filepath.Join(t.TempDir(), "go")
	p := w.shell(`trap "" HUP QUIT TERM; exec "$fenceproxy" run --lock sig -- sh -c 'echo up; while ! test -e ` + go_ + `; do sleep 0.02; done; echo over'`)
	p.says("up")
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM} {
		for _, pid := range p.all() {
			syscall.Kill(pid, s)
		}
	}
	os.WriteFile(go_, nil, 0o600)
	p.wantExit(0)
	p.says("over")
	for _, args := range []string{"lock a", "elect b --id x", "watch b"} {
		p = w.shell(`trap "" HUP INT QUIT TERM; exec "$fenceproxy" ` + args)
		p.says("1")
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
		_, mask, _ := strings.Cut(string(status), "SigIgn:")
		ignored, _ := strconv.ParseUint(strings.Fields(mask)[0], 16, 64)
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
			if ignored>>(s-1)&1 == 0 {
				t.Errorf("%s: %v is not ignored", args, s)
			}
		}
		p.kill(syscall.SIGKILL)
	}
}

// Open files are the command's as they would be without run.
func TestOpenFiles(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	p := w.shell(`exec 3<<<three 4<<<four 5<<<five 9<<<nine; "$fenceproxy" run --lock a -- bash -c 'cat <&3; cat <&4; cat <&5; cat <&9; ls /proc/self/fd | wc -l'; ls /proc/self/fd | wc -l`)
	p.wantExit(0)
	lines := strings.Fields(p.out.String())
	if len(lines) != 6 || strings.Join(lines[:4], " ") != "three four five nine" || lines[4] != lines[5] {
		t.Errorf("%q %s", lines, p.err)
	}
}

// Standard input that is closed from the beginning.
func TestLockWithoutInput(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	held, err := w.client.Lock(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release(ctx)
	p := w.start("lock", "a") // /dev/null
	p.wantExit(75)
	if !strings.Contains(p.err.String(), "standard input") {
		t.Error(p.err)
	}
}
