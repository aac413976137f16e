package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func TestExitCodes(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	held, err := w.client.Lock(ctx, "held")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release(ctx)
	for _, tc := range []struct {
		what string
		args []string
		code int
		err  string
	}{
		{"success", []string{"--lock", "a", "--", "true"}, 0, ""},
		{"the command's own", []string{"--lock", "a", "--", "sh", "-c", "exit 7"}, 7, ""},
		{"ended by a signal", []string{"--lock", "a", "--", "sh", "-c", "kill -9 $$"}, 137, ""},
		{"without dashes", []string{"--lock", "a", "sh", "-c", "exit 8"}, 8, ""},
		{"held, try", []string{"--lock", "held", "--try", "--", "true"}, 75, "is held by"},
		{"held, wait", []string{"--lock", "held", "--wait", "200ms", "--", "true"}, 75, "was not free within 200ms"},
		{"no server", []string{"--lock", "a", "--backend", "postgres://x@127.0.0.1:1/x", "--wait", "1s", "--", "true"}, 75, "not available"},
		{"no such command", []string{"--lock", "a", "--", "no-such-command"}, 127, "command not found"},
		{"not executable", []string{"--lock", "a", "--", "/etc/passwd"}, 126, "permission denied"},
		{"no command", []string{"--lock", "a"}, 2, "COMMAND is missing"},
		{"no lock", []string{"--", "true"}, 2, "name of the lock"},
		{"bad backend", []string{"--lock", "a", "--backend", "magic://x", "--", "true"}, 2, "unknown lock backend"},
		{"TTL of the URL", []string{"--lock", "a", "--backend", w.url() + "&ttl=5s", "--grace", "3s", "--", "true"}, 2, "half of --ttl, 5s"},
		{"TTL that the service refuses", []string{"--lock", "a", "--ttl", "48h", "--", "true"}, 2, "at most a day"},
		{"name that the service refuses", []string{"--lock", "a", "--backend", w.url() + "&mode=advisory&keys=pair", "--", "true"}, 2, "two int4"},
		{"bad grace", []string{"--lock", "a", "--grace", "1h", "--", "true"}, 2, "--grace"},
	} {
		p := w.start(append([]string{"run"}, tc.args...)...)
		if got := p.exit(); got != tc.code || !strings.Contains(p.err.String(), tc.err) {
			t.Errorf("%s: exit code %d, want %d\n%s", tc.what, got, tc.code, p.err)
		}
	}
	if l, err := w.client.TryLock(ctx, "a"); err != nil {
		t.Error("a lock was not released:", err)
	} else {
		l.Release(ctx)
	}
}

// What a child presents: libpq programs, scripts that call them, another language.
func TestChildrenPresentTheToken(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	w.c.Exec(t, w.db, "CREATE TABLE acct (v int)")
	proxy := proxytest.Start(t, w.c.DSN(w.db, "postgres"), "--fence", "billing=acct")
	dsn := proxy.DSN(w.db, "postgres")
	for _, tc := range []struct {
		what string
		argv []string
		want string
	}{
		{"psql", []string{"psql", "-XAtq", "-d", dsn, "-c", "INSERT INTO acct VALUES (1) RETURNING v"}, "1"},
		{"a script", []string{"sh", "-c", "echo 'INSERT INTO acct VALUES (2) RETURNING v' | psql -XAtq -d '" + dsn + "' | cat"}, "2"},
		{"pg_dump", []string{"pg_dump", "-d", dsn, "-t", "acct", "--data-only"}, "COPY public.acct"},
		{"python", []string{"python3", "-c", "import os; print(os.environ['FENCE_LOCK'], os.environ['PGOPTIONS'])"}, "billing -c fence.token=billing=1."},
	} {
		if _, err := exec.LookPath(tc.argv[0]); err != nil {
			t.Logf("%s is not installed", tc.argv[0])
			continue
		}
		p := w.start(append([]string{"run", "--lock", "billing", "--"}, tc.argv...)...)
		p.wantExit(0)
		if !strings.Contains(p.out.String(), tc.want) {
			t.Errorf("%s: %s%s", tc.what, p.out, p.err)
		}
	}
}

// Ways of a child not to end.
var stubborn = map[string]string{
	"ignores SIGTERM":  `trap "" TERM; echo up; while :; do sleep 0.05; done`,
	"forks":            `trap "" TERM; (trap "" TERM; while :; do sleep 0.05; done) & (sleep 1000) & echo up; wait; wait`,
	"pipeline":         `trap "" TERM; echo up; yes | (trap "" TERM; while read x; do sleep 0.05; done) | cat`,
	"leaves its group": `trap "" TERM; setsid sh -c 'trap "" TERM; while :; do sleep 0.05; done' & echo up; while :; do sleep 0.05; done`,
	"stops itself":     `echo up; kill -STOP $$`,
}

// No process of the command is left when somebody else has the lock, whatever became of the wrapper. Mutants "no
// guardian", "the guardian does not look at the deadline", "it kills the child only": red.
func TestNothingOutlivesTheWindow(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	ways := map[string]func(p *process){
		"wrapper killed":  func(p *process) { p.kill(syscall.SIGKILL) },
		"wrapper stopped": func(p *process) { p.kill(syscall.SIGSTOP) },
	}
	for child, script := range stubborn {
		for way, strike := range ways {
			t.Run(child+"/"+way, func(t *testing.T) {
				t.Parallel()
				w := &world{t: t, c: w.c, db: w.db, client: w.client}
				lock := fmt.Sprintf("l%d", marks.Add(1))
				p := w.runUp(lock, script)
				struck := time.Now()
				strike(p)
				left, waited := w.nextHolder(lock, p)
				if len(left) > 0 {
					t.Errorf("the lock is another's after %v, and there is still\n%s", waited, strings.Join(left, "\n"))
				}
				if d := time.Since(struck); d > ttl+10*time.Second {
					t.Errorf("taken over after %v", d)
				}
				if way == "wrapper stopped" {
					p.kill(syscall.SIGCONT)
					p.wantExit(76)
				}
			})
		}
	}
}

// The lock is lost while the command runs: it is told to end, killed when it does not, and run says 76.
func TestLost(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	polite := `trap "echo asked; exit 3" TERM; echo up; while :; do sleep 0.02; done`
	for what, script := range map[string]string{"polite": polite, "stubborn": stubborn["forks"]} {
		t.Run(what, func(t *testing.T) {
			w := &world{t: t, c: w.c, db: w.db, client: w.client}
			lock := "lost-" + what
			p := w.runUp(lock, script)
			lose(w, lock)
			p.wantGone(ttl)
			p.wantExit(76)
			if what == "polite" && !strings.Contains(p.out.String(), "asked") {
				t.Error("it was not asked to end")
			}
		})
	}
}

// The database is gone: the command ends within the window, and the lock is free when it is back.
func TestServerGone(t *testing.T) {
	c := pgtest.Start(t)
	w := newWorld(t, c)
	p := w.runUp("x", stubborn["ignores SIGTERM"])
	c.Kill()
	p.wantGone(ttl)
	p.wantExit(76)
	c.Restart(t)
	w.nextHolder("x", p)
}

// Signals are the command's; the lock is free as soon as the command is gone, and not before.
func TestSignals(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	ended := filepath.Join(t.TempDir(), "ended")
	p := w.runUp("sig", `trap "sleep 0.4; touch `+ended+`; exit 5" TERM; trap "echo hup" HUP; echo up; while :; do sleep 0.02; done`)
	p.kill(syscall.SIGHUP)
	p.says("hup")
	p.kill(syscall.SIGTERM)
	left, _ := w.nextHolder("sig", p)
	got := time.Now()
	p.wantExit(5)
	if file, err := os.Stat(ended); err != nil {
		t.Error("the lock was another's before the command had ended")
	} else if d := got.Sub(file.ModTime()); d > time.Second || len(left) > 0 {
		t.Errorf("released %v after the command's end, left: %v", d, left)
	}

	// What the command leaves behind in its group does not keep the lock, nor run without it.
	p = w.run("bg", `(sleep 1000) & echo up`)
	p.wantExit(0)
	if left := p.children(); len(left) > 0 {
		t.Error("left:", left)
	}
	// It may end in its own time, within the grace.
	ready, swept := filepath.Join(t.TempDir(), "ready"), filepath.Join(t.TempDir(), "swept")
	p = w.run("sweep", `(trap "sleep 0.3; touch `+swept+`; exit" TERM; touch `+ready+`; while :; do sleep 0.02; done) & while ! test -e `+ready+`; do sleep 0.02; done`)
	p.wantExit(0)
	if _, err := os.Stat(swept); err != nil {
		t.Error("what was left behind got no time to end:", err)
	}

	// While it waits for the lock a signal ends run itself.
	held, err := w.client.Lock(ctx, "sig")
	if err != nil {
		t.Fatal(err)
	}
	p = w.run("sig", "echo up")
	eventually(t, "queued", func() bool { return w.queued("sig") == 1 })
	p.kill(syscall.SIGTERM)
	p.wantExit(75)
	held.Release(ctx)
	if n := w.queued("sig"); n != 0 {
		t.Error("tickets left:", n)
	}
}

func (w *world) queued(lock string) (n int) {
	conn := w.c.Connect(w.t, w.db, "postgres")
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM fence.ticket WHERE name = $1 AND waits", lock).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// SIGSTOP while queued, for longer than the TTL: others get on, and after SIGCONT it queues again.
func TestStoppedInTheQueue(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	held, err := w.client.Lock(ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	p := w.run("q", "echo up")
	eventually(t, "queued", func() bool { return w.queued("q") == 1 })
	p.kill(syscall.SIGSTOP)
	held.Release(ctx)
	begin := time.Now()
	l, err := w.client.Lock(ctx, "q", lockclient.WithWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > ttl+10*time.Second {
		t.Errorf("a stopped waiter was in the way for %v", d)
	}
	p.kill(syscall.SIGCONT)
	eventually(t, "queued again", func() bool { return w.queued("q") >= 1 })
	l.Release(ctx)
	p.wantExit(0)
	p.says("up")
}

// The guardian is killed: the wrapper kills the group and says that something is wrong.
func TestGuardianKilled(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	p := w.runUp("g", stubborn["forks"])
	syscall.Kill(p.guardian(), syscall.SIGKILL)
	left, _ := w.nextHolder("g", p)
	p.wantExit(70)
	if len(left) > 0 {
		t.Error("left:", left)
	}
}

// Both at once: the command's first process dies with the guardian. What it has started is for the fence.
func TestBothKilled(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	p := w.runUp("both", stubborn["ignores SIGTERM"])
	guardian := p.guardian()
	p.kill(syscall.SIGSTOP)
	syscall.Kill(guardian, syscall.SIGKILL)
	p.kill(syscall.SIGKILL)
	eventually(t, "the command is gone", func() bool {
		for _, c := range p.children() {
			if strings.Contains(c, "trap") {
				return false
			}
		}
		return true
	})
}

// A run inside of a run presents both tokens.
func TestNestedRuns(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	binary := proxytest.Binary(t)
	p := w.run("outer", binary+` run --lock inner --backend "$FENCEPROXY_BACKEND" -- sh -c 'echo "$PGOPTIONS"'`)
	p.wantExit(0)
	if s := p.out.String(); !strings.Contains(s, "outer=1.1,inner=1.2") {
		t.Error(s, p.err)
	}
	p = w.run("outer", binary+` run --lock outer --try --backend "$FENCEPROXY_BACKEND" -- true`)
	p.wantExit(75)
}
