package sidecar

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// All of etcd goes away in the middle of a tenure: nothing is written later than a TTL after that, the reason is told, and
// the lock is had again when etcd is back. Mutant: relay's Tenure.follow does nothing, Enter does not look at the lease.
func TestAllOfEtcdAway(t *testing.T) {
	for _, way := range []struct {
		name        string
		leave, back func(*etcdtest.Cluster, int)
	}{
		{"killed", (*etcdtest.Cluster).Kill, (*etcdtest.Cluster).Restart},
		{"stopped", (*etcdtest.Cluster).Stop, (*etcdtest.Cluster).Continue},
	} {
		t.Run(way.name, func(t *testing.T) {
			p := newPlace(t)
			e := etcdtest.Start(t, 3)
			p.backend = "etcd://" + strings.ReplaceAll(strings.Join(e.Endpoints(), ","), "http://", "") + "?ttl=" + ttl.String()
			side := p.sidecar("--when-not-held", "refuse")
			waitHolding(t, side)
			before := holder(t, side).Token
			idle := connect(t, side, p.db)
			conn := connect(t, side, p.db)
			if err := pay(conn); err != nil {
				t.Fatal(err)
			}
			gone := time.Now()
			for m := range 3 {
				way.leave(e, m)
			}
			var last time.Time
			for {
				sent := time.Now()
				if err := pay(conn); err != nil {
					break
				}
				if last = sent; time.Since(gone) > patience {
					t.Fatal("writes go on")
				}
				time.Sleep(5 * time.Millisecond)
			}
			t.Logf("last write %v after the end of etcd", last.Sub(gone))
			if last.Sub(gone) > ttl {
				t.Errorf("written %v after the end of etcd", last.Sub(gone))
			}
			if got := ending(idle); got != "ZF001" {
				t.Errorf("an idle session ended with %q", got)
			}
			if _, err := pgx.Connect(ctx, side.DSN(p.db, "postgres")); code(err) != "57P03" {
				t.Errorf("a new client: %v", err)
			}
			if c, _, _ := side.Get("/readyz"); c != 503 {
				t.Errorf("/readyz: %d", c)
			}
			poll(t, "the reason is told", func() bool { return strings.Contains(holder(t, side).Problem, "cannot be asked") })
			for m := range 3 {
				way.back(e, m)
			}
			took := waitHolding(t, side)
			t.Logf("held again after %v", took)
			if now := holder(t, side).Token; !parsePosition("=" + before).below(parsePosition("=" + now)) {
				t.Errorf("token %s after %s", now, before)
			}
			if err := pay(connect(t, side, p.db)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A lock service that answers late, up to later than a TTL: never do two hold the lock, whoever holds it writes, and
// nobody is left without it when the service is well again.
func TestSlowService(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		u, err := url.Parse(p.backend)
		if err != nil {
			t.Fatal(err)
		}
		k := newLink(t, u.Host)
		direct := p.backend
		u.Host = k.host()
		p.backend = u.String()
		slow := p.sidecar("--when-not-held", "refuse")
		waitHolding(t, slow)
		p.backend = direct
		other := p.sidecar("--when-not-held", "refuse")
		for _, late := range []time.Duration{ttl / 8, ttl * 2 / 5, ttl * 6 / 5, ttl / 4, 0} {
			k.delay(late)
			held := map[*proxytest.Proxy]int{}
			for began := time.Now(); time.Since(began) < 2*ttl; time.Sleep(10 * time.Millisecond) {
				a, b, again := holder(t, slow), holder(t, other), holder(t, slow)
				if a.Holding && b.Holding && again.Holding && a.Token == again.Token {
					t.Errorf("late by %v: two hold the lock: %s and %s", late, a.Token, b.Token)
				}
				for side, s := range map[*proxytest.Proxy]state{slow: again, other: b} {
					if s.Holding {
						held[side]++
					}
				}
			}
			t.Logf("late by %v: %d looks at the slow one, %d at the other", late, held[slow], held[other])
		}
		other.Kill()
		waitHolding(t, slow)
		if err := pay(connect(t, slow, p.db)); err != nil {
			t.Error(err)
		}
	})
}

func ownPlace(t *testing.T) *place {
	c := pgtest.Start(t)
	p := &place{t: t, c: c, db: c.NewDatabase(t)}
	proxytest.Install(t, c.DSN(p.db, "postgres"))
	c.Exec(t, p.db, `CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL); INSERT INTO acct VALUES (1, 0)`)
	p.backend = c.DSN(p.db, "postgres") + "&ttl=" + ttl.String()
	return p
}

// The database, which has the lease table too, crashes and comes back: so does the service.
func TestDatabaseCrashes(t *testing.T) {
	p := ownPlace(t)
	side := p.sidecar()
	waitHolding(t, side)
	conn := connect(t, side, p.db)
	for range 3 {
		p.c.Kill()
		if err := pay(conn); err == nil {
			t.Error("written without a database")
		}
		p.c.Restart(t)
		poll(t, "a client writes", func() bool {
			limit, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			c, err := pgx.Connect(limit, side.DSN(p.db, "postgres"))
			if err != nil {
				return false
			}
			conn = c
			return pay(c) == nil
		})
	}
	conn.Close(ctx)
}

// family is a process and its children.
func family(pid int) []int {
	all := []int{pid}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) > 1 && f[1] == strconv.Itoa(pid) {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			all = append(all, n)
		}
	}
	return all
}

// The whole server, which has the lease table too, is frozen for longer than a TTL: the tenure is over meanwhile, what was
// begun in it is not committed, and the next one is another.
func TestDatabaseFrozen(t *testing.T) {
	p := ownPlace(t)
	side := p.sidecar("--when-not-held", "refuse")
	waitHolding(t, side)
	before := holder(t, side).Token
	idle, stale := connect(t, side, p.db), connect(t, side, p.db)
	tx, err := stale.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, "UPDATE acct SET bal = -1000 WHERE id = 1")
	}
	if err != nil {
		t.Fatal(err)
	}
	frozen := family(p.c.Pid())
	thaw := func() {
		for _, pid := range frozen {
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	defer thaw()
	began := time.Now()
	for _, pid := range frozen {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	poll(t, "not held", func() bool { return !holder(t, side).Holding })
	if took := time.Since(began); took > ttl+200*time.Millisecond {
		t.Errorf("held for %v without a word of the lock service", took)
	}
	if got := ending(idle); got != "ZF001" {
		t.Errorf("an idle session ended with %q", got)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := tx.Commit(limited); err == nil || limited.Err() != nil {
		t.Errorf("COMMIT after the end of the tenure: %v", err)
	}
	time.Sleep(ttl / 2) // frozen for longer than a TTL, whatever came first
	thaw()
	waitHolding(t, side)
	if now := holder(t, side).Token; !parsePosition("=" + before).below(parsePosition("=" + now)) {
		t.Errorf("token %s after %s", now, before)
	}
	conn := connect(t, side, p.db)
	if err := pay(conn); err != nil {
		t.Error(err)
	}
	var n int
	if err := conn.QueryRow(ctx, "SELECT bal FROM acct").Scan(&n); err != nil || n != 1 {
		t.Errorf("balance %d, %v", n, err)
	}
}

// Same name, other database. A lease table is its database's own.
func TestSameNameElsewhere(t *testing.T) {
	a, b := newPlace(t), newPlace(t)
	for _, p := range []*place{a, b} {
		p.backend = p.c.DSN(p.db, "postgres") + "&ttl=" + ttl.String()
	}
	one, two := a.sidecar(), b.sidecar()
	waitHolding(t, one)
	waitHolding(t, two)
	for side, p := range map[*proxytest.Proxy]*place{one: a, two: b} {
		if err := pay(connect(t, side, p.db)); err != nil {
			t.Error(err)
		}
	}
}

// What will never work ends serve with exit code 2; what may work later does not end it.
func TestWrongBackend(t *testing.T) {
	binary := proxytest.Binary(t)
	for _, c := range []struct{ url, says string }{
		{"foo://x", `unknown lock backend "foo"`},
		{"etcd://", "the etcd URL has no host"},
		{"etcd://127.0.0.1:1?ttl=abc", "option ttl"},
		{"etcd://127.0.0.1:1?ttl=-1s", "not positive"},
		{"etcd://127.0.0.1:1?nope=1", `unknown option "nope"`},
		{"etcd://127.0.0.1:1?ca=/nowhere", "option ca"},
		{"postgres://x@127.0.0.1:1/d?evict=zz", "option evict"},
		{"postgres://x@127.0.0.1:1/d?mode=what", `unknown mode "what"`},
	} {
		limit, cancel := context.WithTimeout(ctx, patience)
		cmd := exec.CommandContext(limit, binary, "serve", "--listen", "127.0.0.1:0", "--upstream", "postgres://x@127.0.0.1:1/d",
			"--fence", "acct=acct", "--hold", "acct", "--backend", c.url)
		out, _ := cmd.CombinedOutput()
		cancel()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: exit code %d: %s", c.url, cmd.ProcessState.ExitCode(), out)
		}
	}
	p := newPlace(t)
	p.backend = "postgres://x@127.0.0.1:1/d"
	side := p.sidecar("--when-not-held", "refuse")
	poll(t, "the reason is told", func() bool { return strings.Contains(holder(t, side).Problem, "cannot be asked") })
	if _, err := pgx.Connect(ctx, side.DSN(p.db, "postgres")); code(err) != "57P03" || !strings.Contains(hint(err), "cannot be asked") {
		t.Errorf("%v: %s", err, hint(err))
	}
}
