package tokens

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

const shortGrace = 300 * time.Millisecond

// slack is what a busy machine may add to the grace; alone it is some 20 ms.
const slack = 3 * time.Second

// announceSoon announces 34: not before the grace is over, and soon after.
func (w *world) announceSoon(c *Control) {
	w.t.Helper()
	start := time.Now()
	expect(w.t, "announce", w.announce(c, "34"), "ok")
	if took := time.Since(start); took < shortGrace || took > shortGrace+slack {
		w.t.Errorf("announced after %v", took)
	}
}

func (w *world) alive(s *session) {
	w.t.Helper()
	if got := w.su.do("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", s.pid); got != "ok:1" {
		w.t.Errorf("backend %d is gone", s.pid)
	}
}

// Who holds the key is ended after the grace, whatever it is, and nobody else. Mutants: "no eviction" hangs; "evict by
// pg_blocking_pids" ends the innocent in the last cases; "shared locks only" hangs on the exclusive ones.
func TestEvictionEndsExactlyTheHolders(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hold  func(w *world, s *session, f string)
		user  string
		state string
	}{
		{"a guarded transaction, frozen idle", func(w *world, s *session, f string) {
			s.token(33)
			s.must("BEGIN")
			expect(w.t, "guard", s.guard(inline, f), "ok")
			s.must("UPDATE t SET v = v + 1 WHERE id = 2")
		}, "app", "idle in transaction"},
		{"a guarded transaction at work", func(w *world, s *session, f string) {
			s.token(33)
			s.must("BEGIN")
			expect(w.t, "guard", s.guard(slow, f), "ok")
			s.start(func() string { return s.do("SELECT pg_sleep(60)") })
		}, "app", "active"},
		{"a client frozen between the steps of a raise", func(w *world, s *session, f string) { // redteam 5
			s.must("BEGIN")
			s.must("SELECT fence.raise($1, 0, 34, '', NULL)", f)
		}, "control", "idle in transaction"},
		{"a session-level lock of a stranger, exclusive", func(w *world, s *session, f string) { // redteam 5
			s.must("SELECT pg_advisory_lock($1, $2)", LockClass, w.id(f))
		}, "app", "idle"},
		{"a session-level lock of a stranger, exclusive and at work", func(w *world, s *session, f string) {
			id := w.id(f)
			s.must("SELECT pg_advisory_lock($1, $2)", LockClass, id)
			s.start(func() string { return s.do("SELECT pg_sleep(60)") })
		}, "app", "active"},
		{"a session-level lock of a stranger, shared", func(w *world, s *session, f string) {
			s.must("SELECT pg_advisory_lock_shared($1, $2)", LockClass, w.id(f))
		}, "app", "idle"},
		{"a client that does not read", func(w *world, s *session, f string) { // D4
			s.token(33)
			s.must("BEGIN")
			expect(w.t, "guard", s.guard(inline, f), "ok")
			fe := s.PgConn().Frontend()
			fe.Send(&pgproto3.Query{String: "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)"})
			fe.Flush()
			eventually(w.t, "backend stuck in send", func() bool {
				return w.su.do("SELECT wait_event FROM pg_stat_activity WHERE pid = $1", s.pid) == "ok:ClientWrite"
			})
			w.t.Cleanup(func() { s.PgConn().Conn().Close() })
		}, "app", "active"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			f, other := w.fence(33), w.fence(33)
			zombie, innocent, queued := w.dial(tt.user), w.dial("app"), w.dial("app")
			tt.hold(w, zombie, f)
			if tt.state == "active" {
				eventually(t, "at work", func() bool {
					return w.su.do("SELECT state FROM pg_stat_activity WHERE pid = $1", zombie.pid) == "ok:active"
				})
			}
			innocent.token(other + "=33")
			innocent.must("BEGIN")
			expect(t, "innocent", innocent.do(GuardSQL, []string{other}, ""), "ok:"+innocent.raw)
			c, e, _ := w.control([]string{f}, grace(shortGrace))
			w.announceSoon(c)
			eventually(t, "told", func() bool { return e.count("evicted") == 1 })
			if want := fmt.Sprintf("evicted %s %d %s %s", f, zombie.pid, tt.user, tt.state); e.count(want) != 1 {
				t.Errorf("events: %q, want %q", e.list, want)
			}
			w.alive(innocent)
			w.alive(queued)
			innocent.must("COMMIT")
			expect(t, "mark", w.mark(f), "ok:34")
		})
	}
}

// H4, D2: with raises of two proxies queued behind one zombie, pg_blocking_pids of the second names the first raiser.
// Both are answered, and only the zombie ends.
func TestHole4TwoProxiesBehindOneZombie(t *testing.T) {
	for _, second := range []string{"34", "35"} {
		w := newWorld(t)
		f := w.fence(33)
		zombies := make([]*session, 6)
		for i := range zombies {
			zombies[i] = w.dial("app")
			zombies[i].token(33)
			zombies[i].must("BEGIN")
			expect(t, "guard", zombies[i].guard(forms[i%3], f), "ok")
		}
		one, e1, _ := w.control([]string{f}, grace(shortGrace))
		two, e2, _ := w.control([]string{f}, grace(shortGrace))
		s := w.session("app")
		start := time.Now()
		answers := make(chan string, 2)
		announce := func(c *Control, raw string) {
			l, _ := Parse(raw)
			_, err := c.Announce(ctx, s, l)
			if err != nil {
				answers <- err.Code
				return
			}
			answers <- "ok"
		}
		go announce(one, "34")
		eventually(t, "first raise waits", func() bool { return w.su.do("SELECT waiting FROM fence.status($1)", f) == "ok:1" })
		go announce(two, second)
		expect(t, "one of them", <-answers, "ok")
		expect(t, "the other", <-answers, "ok")
		if took := time.Since(start); took > shortGrace+slack {
			t.Errorf("took %v", took)
		}
		expect(t, "mark", w.mark(f), "ok:"+second)
		eventually(t, "all told", func() bool { return e1.count("evicted")+e2.count("evicted") >= 6 })
		for _, e := range []*told{e1, e2} {
			e.mu.Lock()
			for _, line := range e.list {
				if strings.Contains(line, " control ") {
					t.Errorf("a raise was ended: %s", line)
				}
			}
			e.mu.Unlock()
		}
	}
}

// A round that comes late must not end the new holder: it acts only while its own raise waits, by one look at the lock
// table. Mutant "blockers without the waiter's condition": the new holder ends.
func TestLateEvictionSparesTheNewHolder(t *testing.T) {
	w := newWorld(t)
	f := w.fence(34)
	holder, raiser := w.dial("app"), w.dial("control")
	holder.token(34)
	holder.must("BEGIN")
	expect(t, "guard", holder.guard(inline, f), "ok")
	c, e, _ := w.control([]string{f})
	d := c.database(w.db)
	late := &flight{db: d, want: target{f, Token{0, 34}}}
	late.waiter.Store(uint32(raiser.pid)) // its backend has been answered and waits for nothing
	var ev eviction
	for range 3 {
		if n := ev.round(ctx, late); n != 0 {
			t.Errorf("%d blockers", n)
		}
	}
	w.alive(holder)
	holder.must("COMMIT")
	if e.count("evicted") != 0 {
		t.Errorf("events: %q", e.list)
	}
}

// Another raise that holds the lock and is about to commit is no zombie, though it may be caught in the act.
func TestEvictionSparesAWorkingRaise(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	working, waiting := w.dial("control"), w.dial("control")
	working.must("BEGIN")
	working.must("SELECT fence.raise($1, 0, 34, '', NULL)", f)
	p := working.start(func() string { return working.do("SELECT pg_sleep(60)") })
	eventually(t, "at work", func() bool {
		return w.su.do("SELECT state FROM pg_stat_activity WHERE pid = $1", working.pid) == "ok:active"
	})
	q := waiting.raise(f, 35)
	expect(t, "second raise", q.state(), "waits")
	c, _, _ := w.control([]string{f})
	fl := &flight{db: c.database(w.db), want: target{f, Token{0, 35}}}
	fl.waiter.Store(uint32(waiting.pid))
	var ev eviction
	if n := ev.round(ctx, fl); n != 1 {
		t.Errorf("%d blockers", n)
	}
	w.alive(working)
	ev.round(ctx, fl) // still there: it is stuck
	expect(t, "stuck raise", p.get(), "57P01")
	expect(t, "second raise", q.get(), "ok:true")
}

// H13, D3: a stopped backend cannot be ended. The takeover waits, safely, and says so; others are not kept.
func TestHole13StoppedBackendKeepsTakeoverWaiting(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	stopped, other := w.dial("app"), w.dial("app")
	for _, s := range []*session{stopped, other} {
		s.token(33)
		s.must("BEGIN")
		expect(t, "guard", s.guard(inline, f), "ok")
	}
	syscall.Kill(stopped.pid, syscall.SIGSTOP)
	resume := func() { syscall.Kill(stopped.pid, syscall.SIGCONT) }
	defer resume()
	c, e, logs := w.control([]string{f}, grace(shortGrace))
	p := other.start(func() string { return w.announce(c, "34") })
	eventually(t, "the other one is ended", func() bool { return e.count(fmt.Sprintf("evicted %s %d", f, other.pid)) == 1 })
	eventually(t, "alarms", func() bool {
		return e.count("waiting "+f+" 1") >= 3 && logs.FilterMessageSnippet("does not end when told to").Len() == 1
	})
	expect(t, "mark", w.mark(f), "ok:33")
	resume()
	expect(t, "announce", p.get(), "ok")
}

// H13, A8, X2c: so does a prepared transaction, by its gid, and it is not ours to roll back.
func TestHole13PreparedTransactionKeepsTakeoverWaiting(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	gid := "z" + f
	a := w.dial("app")
	a.token(33)
	a.must("BEGIN")
	expect(t, "guard", a.guard(fast, f), "ok")
	a.must("UPDATE t SET v = v + 1 WHERE id = 3")
	a.must("PREPARE TRANSACTION '" + gid + "'")
	blockers, err := Blockers(ctx, w.su.Conn, f)
	if err != nil || len(blockers) != 1 || blockers[0].GID != gid || blockers[0].PID != 0 || blockers[0].Role != "app" || blockers[0].Exclusive {
		t.Errorf("blockers: %+v, %v", blockers, err)
	}
	c, e, logs := w.control([]string{f}, grace(shortGrace))
	p := a.start(func() string { return w.announce(c, "34") })
	eventually(t, "alarms", func() bool {
		return e.count("waiting "+f+" 1") >= 3 && logs.FilterMessageSnippet("prepared transaction").Len() >= 3
	})
	w.alive(a) // its session has nothing to do with it any more
	expect(t, "mark", w.mark(f), "ok:33")
	w.su.must("COMMIT PREPARED '" + gid + "'")
	expect(t, "announce", p.get(), "ok")
}

// A session that the control role may not end keeps the takeover waiting too, with the reason in the log.
func TestEvictionWithoutThePrivilege(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	super := w.dial("postgres")
	super.token(33)
	super.must("BEGIN")
	expect(t, "guard", super.guard(inline, f), "ok")
	c, e, logs := w.control([]string{f}, grace(shortGrace))
	p := super.start(func() string { return w.announce(c, "34") })
	eventually(t, "alarm", func() bool {
		return e.count("waiting "+f+" 1") >= 2 && logs.FilterMessageSnippet("may not be ended").Len() == 1
	})
	w.alive(super)
	super.must("COMMIT")
	expect(t, "announce", p.get(), "ok")
}

// The operator's raise watches and evicts as the proxy does, and may go further than max_jump.
func TestOperatorRaise(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	zombie := w.dial("app")
	zombie.token(33)
	zombie.must("BEGIN")
	expect(t, "guard", zombie.guard(inline, f), "ok")
	e := new(told)
	dsn := w.c.DSN(w.db, "control")
	m, err := Raise(ctx, dsn, f, Token{0, 5_000_000_000}, "operator", shortGrace, e, nil)
	if err != nil || m != (Mark{w.id(f), f, Token{0, 5_000_000_000}}) {
		t.Fatal(m, err)
	}
	if e.count(fmt.Sprintf("evicted %s %d", f, zombie.pid)) != 1 {
		t.Errorf("events: %q", e.list)
	}
	_, err = Raise(ctx, dsn, f, Token{0, 34}, "operator", shortGrace, nil, nil)
	expect(t, "lower", err.Code, CodeStale)
	_, err = Raise(ctx, dsn, "a b", Token{0, 34}, "operator", shortGrace, nil, nil)
	expect(t, "bad name", err.Code, CodeMalformed)
	// Without a name for the holder none is told.
	if _, err := Raise(ctx, dsn, f, Token{0, 5_000_000_001}, "", shortGrace, nil, nil); err != nil {
		t.Fatal(err)
	}
	_, err = Raise(ctx, dsn, f, Token{0, 34}, "", shortGrace, nil, nil)
	if !strings.HasSuffix(err.Detail, "UTC, holder unknown.") {
		t.Errorf("detail %q", err.Detail)
	}
}
