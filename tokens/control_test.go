package tokens

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// told collects a Control's events as short texts.
type told struct {
	mu   sync.Mutex
	list []string
}

func (e *told) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf(format, args...))
}

func (e *told) count(prefix string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.list {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

func (e *told) Raised(_ string, m Mark, from Token, _ time.Duration) {
	e.add("raised %s %s to %s", m.Name, from, m.Token)
}
func (e *told) Evicted(_, fence string, pid int, role, state string) {
	e.add("evicted %s %d %s %s", fence, pid, role, state)
}
func (e *told) RaiseWaiting(_, fence string, _ time.Duration, blockers int) {
	e.add("waiting %s %d", fence, blockers)
}
func (e *told) RaiseFailed(_, fence, code string) { e.add("failed %s %s", fence, code) }

// control is a proxy's Control for the fences; events and log are collected.
func (w *world) control(fences []string, change ...func(*ControlConfig)) (*Control, *told, *observer.ObservedLogs) {
	w.t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	e := new(told)
	cfg := ControlConfig{DSN: w.c.DSN("postgres", "control"), Fences: fences, Events: e, Log: zap.New(core), Grace: time.Hour}
	if len(fences) == 1 {
		cfg.Bare = fences[0]
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := NewControl(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c, e, logs
}

func grace(d time.Duration) func(*ControlConfig) { return func(c *ControlConfig) { c.Grace = d } }

func (w *world) session(user string) Session {
	return Session{Database: w.db, SystemID: w.systemID, User: user, Application: "job"}
}

// announce presents a token text in a session of user app. It may run beside the test's own goroutine.
func (w *world) announce(c *Control, raw string) string {
	return w.announceAs(ctx, c, "app", raw)
}

func (w *world) announceAs(ctx context.Context, c *Control, user, raw string) string {
	l, err := Parse(raw)
	if err != nil {
		return code(err)
	}
	marks, e := c.Announce(ctx, w.session(user), l)
	if e != nil {
		return e.Code
	}
	for i, m := range marks {
		if m.ID == 0 || m.Token != l[i].Token || (l[i].Fence != "" && m.Name != l[i].Fence) {
			return fmt.Sprintf("mark %+v", m)
		}
	}
	return "ok"
}

func TestAnnounce(t *testing.T) {
	w := newWorld(t)
	f, g := w.fence(33), w.fence(-1)
	known := new(Known)
	c, e, _ := w.control([]string{f, g}, func(c *ControlConfig) { c.Bare, c.Known, c.MaxJump = f, known, 1000 })
	for _, tt := range []struct{ raw, want, thenF, thenG string }{
		{"", "ok", "ok:33", "ok"},
		{"33", "ok", "ok:33", "ok"},
		{"34", "ok", "ok:34", "ok"},
		{"33", "ZF001", "ok:34", "ok"},
		{"34", "ok", "ok:34", "ok"},
		{f + "=35," + g + "=2000000", "ok", "ok:35", "ok:2000000"},
		{f + "=34," + g + "=2000001", "ZF001", "ok:35", "ok:2000000"}, // one stale: none raised
		{"2000", "ZF003", "ok:35", "ok:2000000"},
		{"1.36", "ZF003", "ok:35", "ok:2000000"},
		{"9223372036854775807", "ZF003", "ok:35", "ok:2000000"},
		{"36," + f + "=36", "ZF003", "ok:35", "ok:2000000"},
		{"other=36", "ZF003", "ok:35", "ok:2000000"},
	} {
		expect(t, tt.raw, w.announce(c, tt.raw), tt.want)
		expect(t, tt.raw+": mark", w.mark(f), tt.thenF)
		expect(t, tt.raw+": mark", w.mark(g), tt.thenG)
	}
	w.set(g, 3000000)                                                // by somebody else
	expect(t, "stale, found out", w.announce(c, g+"=2000000"), "ok") // remembered for a moment; admits nothing
	c.Forget(w.db)
	expect(t, "stale, found out", w.announce(c, g+"=2000000"), "ZF001")
	if m, ok := known.Mark(w.db, g); !ok || m != (Mark{w.id(g), g, Token{0, 3000000}}) {
		t.Errorf("known: %+v", m)
	}
	if mark, stale := known.Stale(w.db, f, Token{0, 34}); !stale || mark != (Token{0, 35}) {
		t.Errorf("known: %v, %v", mark, stale)
	}
	if e.count("raised "+f) != 2 || e.count("raised "+g) != 1 || e.count("failed "+f+" ZF003") != 3 {
		t.Errorf("events: %q", e.list)
	}
	if h, _ := History(ctx, w.su.Conn, f, 1); h[0].Holder != "job (app)" || h[0].By != "control" {
		t.Errorf("history: %+v", h[0])
	}
}

// Redteam 18: on a standby nothing is announced, and the session lives.
func TestAnnounceInRecovery(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	c, _, _ := w.control([]string{f})
	s := w.session("app")
	s.InRecovery = true
	if marks, err := c.Announce(ctx, s, List{{"", Token{0, 34}}}); marks != nil || err != nil {
		t.Error(marks, err)
	}
	expect(t, "mark", w.mark(f), "ok:33")
}

func TestAnnounceRoles(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	c, _, _ := w.control([]string{f}, func(c *ControlConfig) { c.Roles = []string{"worker"} })
	expect(t, "higher, another role", w.announceAs(ctx, c, "app", "34"), "ZF003")
	expect(t, "mark", w.mark(f), "ok:33")
	expect(t, "equal, another role", w.announceAs(ctx, c, "app", "33"), "ok")
	expect(t, "lower, another role", w.announceAs(ctx, c, "app", "32"), "ZF001")
	expect(t, "higher", w.announceAs(ctx, c, "worker", "34"), "ok")
}

// Redteam 13: marks of another server are none of this session's. No schema, no server, no database: ZF005, in words
// that show nothing of what the connection said.
func TestAnnounceUnavailable(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	c, _, logs := w.control([]string{f})
	list := List{{"", Token{0, 34}}}
	s := w.session("app")
	s.SystemID = "1"
	_, e := c.Announce(ctx, s, list)
	expect(t, "another server", e.Code+" "+w.mark(f), "ZF005 ok:33")

	s = w.session("app")
	s.Database = w.c.NewDatabase(t)
	_, e = c.Announce(ctx, s, list)
	if e.Code != CodeUnavailable || !strings.Contains(e.Message, "no fence schema") {
		t.Error("no schema:", e)
	}
	s.Database = "does_not_exist"
	_, e = c.Announce(ctx, s, list)
	if e.Code != CodeUnavailable || strings.Contains(e.Message+e.Detail+e.Hint, "does_not_exist") {
		t.Error("no database:", e)
	}
	app, _, _ := w.control([]string{f}, func(cfg *ControlConfig) { cfg.DSN = w.c.DSN("postgres", "app") })
	_, e = app.Announce(ctx, w.session("app"), list)
	if e.Code != CodeUnavailable || !strings.Contains(e.Hint, "fence_control") {
		t.Error("no privilege:", e)
	}
	down, _, _ := w.control([]string{f}, func(cfg *ControlConfig) { cfg.DSN = "postgres://control@127.0.0.1:1/postgres" })
	_, e = down.Announce(ctx, w.session("app"), list)
	if e.Code != CodeUnavailable || strings.Contains(e.Message+e.Detail+e.Hint, "127.0.0.1") {
		t.Error("no server:", e)
	}
	if logs.FilterMessage("control connection").Len() < 2 {
		t.Error("the log has nothing of it")
	}
}

// Redteam 3: re-announcing the present token never waits, also behind the holder's own guarded batch.
// Mutant "raise locks first": the sibling waits.
func TestReannounceNeverWaits(t *testing.T) {
	w := newWorld(t)
	f := w.fence(34)
	batch := w.dial("app")
	batch.token(34)
	batch.must("BEGIN")
	expect(t, "guard", batch.guard(inline, f), "ok")
	short, cancel := context.WithTimeout(ctx, deadline/2)
	defer cancel()
	for range 2 { // another proxy each
		c, _, _ := w.control([]string{f})
		expect(t, "sibling", w.announceAs(short, c, "app", "34"), "ok")
		expect(t, "sibling, remembered", w.announceAs(short, c, "app", "34"), "ok")
	}
	// nor does it when somebody has asked for more already
	b := w.dial("control")
	p := b.raise(f, 35)
	expect(t, "raise", p.state(), "waits")
	c, _, _ := w.control([]string{f})
	expect(t, "sibling behind a queued raise", w.announceAs(short, c, "app", "34"), "ok")
	batch.must("COMMIT")
	expect(t, "raise", p.get(), "ok:true")
	// the memory of an acknowledgement admits nothing
	expect(t, "guard", batch.guard(inline, f), "ZF001")
}

// Redteam 6, 9: a raise outlives the client that asked: clients that give up sooner than the grace and come again meet
// the same raise, with the same clock. Mutant "raise uses the caller's context": never taken over.
func TestRaiseOutlivesItsCaller(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	zombie := w.dial("app")
	zombie.token(33)
	zombie.must("BEGIN")
	expect(t, "guard", zombie.guard(inline, f), "ok")
	const g = 700 * time.Millisecond
	c, e, _ := w.control([]string{f}, grace(g))
	start, got := time.Now(), ""
	for got != "ok" && time.Since(start) < deadline {
		short, cancel := context.WithTimeout(ctx, g/4)
		got = w.announceAs(short, c, "app", "34")
		cancel()
	}
	if took := time.Since(start); got != "ok" || took < g || took > g+slack {
		t.Errorf("%s after %v", got, took)
	}
	expect(t, "zombie", zombie.do("SELECT 1"), "57P01")
	eventually(t, "told of the eviction", func() bool { return e.count(fmt.Sprintf("evicted %s %d app idle in transaction", f, zombie.pid)) == 1 })
	if e.count("raised "+f+" 33 to 34") != 1 {
		t.Errorf("events: %q", e.list)
	}
}

// Many sessions of a new holder ask at once: one raise.
func TestAnnouncesCoalesce(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	old := w.dial("app")
	old.token(33)
	old.must("BEGIN")
	old.guard(slow, f)
	c, e, _ := w.control([]string{f})
	var all sync.WaitGroup
	s := w.session("app")
	for range 50 {
		all.Go(func() {
			if _, err := c.Announce(ctx, s, List{{"", Token{0, 34}}}); err != nil {
				t.Error(err)
			}
		})
	}
	waiting := func() string { return w.su.do("SELECT waiting FROM fence.status($1)", f) }
	eventually(t, "raise waits", func() bool { return waiting() != "ok:0" })
	expect(t, "raises waiting", waiting(), "ok:1")
	old.must("COMMIT")
	all.Wait()
	if e.count("raised") != 1 {
		t.Errorf("events: %q", e.list)
	}
}

// H6: the mark is durable though everybody has synchronous_commit off. Mutant "no set_config and no deferred trigger":
// the mark is 33 after the crash.
func TestHole6RaiseSurvivesImmediateStop(t *testing.T) {
	c := pgtest.Start(t, pgtest.WithSetting("synchronous_commit", "off"), pgtest.WithSetting("wal_writer_delay", "10s"), pgtest.WithSetting("wal_writer_flush_after", "1GB"))
	w := ownWorld(t, c)
	f, byHand := w.fence(33), w.fence(33)
	w.su.must("CHECKPOINT")
	ctl, _, _ := w.control([]string{f})
	w.su.must("INSERT INTO t VALUES (1000, 0)") // not durable: shows that the test can tell
	expect(t, "announce", w.announce(ctl, "34"), "ok")
	w.su.must("INSERT INTO t VALUES (1001, 0)")
	w.su.must("BEGIN")
	w.su.must("SELECT fence.raise($1, 0, 34, '', NULL)", byHand)
	w.su.must("SET LOCAL synchronous_commit = off") // after the raise: only a trigger at commit sees it
	w.su.must("COMMIT")
	w.su.must("INSERT INTO t VALUES (1002, 0)")
	c.Kill()
	c.Restart(t)
	w.su = w.dial("postgres")
	expect(t, "announced", w.mark(f), "ok:34")
	expect(t, "raised by hand", w.mark(byHand), "ok:34")
	expect(t, "the last row of all", w.su.do("SELECT count(*) FROM t WHERE id = 1002"), "ok:0")
	// and connections of before are replaced
	expect(t, "announce after the crash", w.announce(ctl, "35"), "ok")
}

// §1: a raise whose wait for the standbys was cancelled is no acknowledgement, nor is the mark that it left behind.
// Mutants "warning ignored", "equal is done at once": red.
func TestRaiseNotReplicatedIsNotAcknowledged(t *testing.T) {
	c := pgtest.Start(t)
	w := ownWorld(t, c)
	f := w.fence(33)
	ctl, _, _ := w.control([]string{f}, grace(shortGrace))
	expect(t, "the mark of before", w.announce(ctl, "33"), "ok")
	standbys := func(names string) {
		w.su.must("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'")
		w.su.must("SELECT pg_reload_conf()")
		eventually(t, "reload", func() bool { return w.su.do("SHOW synchronous_standby_names") == strings.TrimSuffix("ok:"+names, ":") })
	}
	w.su.must("SET synchronous_commit = local") // for the test's own statements
	waits := func(user string) string {
		return w.su.do("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = $1", user)
	}
	waiting := func() string { return waits("control") }
	standbys("nobody")
	// The wait begins when the checkpointer has read the setting (SyncRepUpdateSyncStandbysDefined).
	app := w.dial("app")
	for effective := false; !effective; {
		p := app.start(func() string { return app.do("UPDATE t SET v = v + 1 WHERE id = 5") })
		eventually(t, "an answer or a wait", func() bool { effective = waits("app") != "ok"; return effective || len(p.done) > 0 })
		w.su.must("SELECT pg_cancel_backend($1)", app.pid)
		p.get()
	}
	asked := make(chan string, 2)
	go func() { asked <- w.announce(ctl, "34") }()
	eventually(t, "raise waits for a standby", func() bool { return waiting() != "ok" })
	time.Sleep(2 * shortGrace) // longer than the grace: nothing to evict there
	w.su.must("SELECT pg_cancel_backend($1)", strings.TrimPrefix(waiting(), "ok:"))
	expect(t, "cancelled", <-asked, "ZF005")
	expect(t, "mark", w.mark(f), "ok:34")
	go func() { asked <- w.announce(ctl, "34") }()
	eventually(t, "the same again waits as well", func() bool { return waiting() != "ok" })
	standbys("")
	expect(t, "without standbys", <-asked, "ok")
}

// A failover or restore that lost the mark: the memory of acknowledgements must not stand in the way for long.
func TestForget(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	c, _, _ := w.control([]string{f})
	expect(t, "announce", w.announce(c, "34"), "ok")
	d := c.database(w.db)
	if _, ok := d.remembered(target{f, Token{0, 34}}, ""); !ok {
		t.Error("not remembered")
	}
	c.Forget(w.db)
	if _, ok := d.remembered(target{f, Token{0, 34}}, ""); ok {
		t.Error("not forgotten")
	}
	expect(t, "announce", w.announce(c, "34"), "ok")
}

func TestPing(t *testing.T) {
	w := newWorld(t)
	c, _, _ := w.control(nil, func(cfg *ControlConfig) { cfg.DSN = w.c.DSN(w.db, "control") })
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
	c, _, _ = w.control(nil)
	if err := c.Ping(ctx); err == nil {
		t.Error("a database without the schema")
	}
}

func TestKnown(t *testing.T) {
	var k Known
	if _, stale := k.Stale("db", "f", Token{}); stale {
		t.Error("knows nothing")
	}
	k.Observe("db", Mark{1, "f", Token{0, 90}})
	k.Observe("db", Mark{1, "f", Token{0, 34}}) // the schema was installed anew: the database's word replaces the memory
	for tok, want := range map[Token]bool{{0, 33}: true, {0, 34}: false, {0, 35}: false, {1, 0}: false} {
		if _, stale := k.Stale("db", "f", tok); stale != want {
			t.Errorf("%v: %v", tok, stale)
		}
	}
	if _, stale := k.Stale("other", "f", Token{0, 33}); stale {
		t.Error("marks are per database")
	}
	for i := range maxKnown + 10 {
		k.Observe("db", Mark{1, fmt.Sprint(i), Token{}})
	}
	if len(k.marks) > maxKnown {
		t.Error("not bounded")
	}
}

// What a bare token means is a matter of the session's own configuration, on one Control: after a reload, sessions of both
// share raises and connections.
func TestAnnouncersShareAControlUnderTheirOwnPolicies(t *testing.T) {
	w := newWorld(t)
	c, _, _ := w.control([]string{"a", "b"}, func(c *ControlConfig) { c.Bare, c.MaxJump = "a", 100 })
	other, err := c.Under(Policy{Fences: []string{"b", "c"}, Bare: "b", MaxJump: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := w.session("app")
	present := func(a interface {
		Announce(context.Context, Session, List) ([]Mark, *Error)
	}, token string) (string, string) {
		t.Helper()
		list, err := Parse(token)
		if err != nil {
			t.Fatal(err)
		}
		marks, e := a.Announce(context.Background(), s, list)
		if e != nil {
			return "", e.Code
		}
		return marks[0].Name + " " + marks[0].Token.String(), ""
	}
	for _, step := range []struct {
		under      *Announcer
		token      string
		mark, code string
	}{
		{c.own, "7", "a 7", ""},
		{other, "7", "b 7", ""},
		{other, "c=1", "c 1", ""},
		{c.own, "c=1", "", CodeMalformed},
		{other, "a=7", "", CodeMalformed},
		{c.own, "b=200", "", CodeMalformed}, // over MaxJump
		{other, "b=200", "b 200", ""},
		{c.own, "b=200", "b 200", ""},
	} {
		if mark, code := present(step.under, step.token); mark != step.mark || code != step.code {
			t.Errorf("%s under %v: %q %q, want %q %q", step.token, step.under.policy.Fences, mark, code, step.mark, step.code)
		}
	}
	if _, err := c.Under(Policy{Fences: []string{"a"}, Bare: "b"}); err == nil {
		t.Error("a bare token for a fence that is none of the policy's")
	}
}

// A server that failed over leaves broken connections idle, and more of them than a raise tries again. Trusted ones, for
// they were used a moment ago. Mutant "one broken connection takes none with it": ZF005.
func TestAnnounceOverBrokenConnections(t *testing.T) {
	w := newWorld(t)
	f, g := w.fence(33), w.fence(33)
	c, _, _ := w.control([]string{f, g})
	d := c.database(w.db)
	admin := w.c.Connect(t, w.db, "postgres")
	for i, raw := range []string{f + "=34", f + "=35," + g + "=35"} {
		var idle []*conn
		for range maxIdle {
			conn, err := d.conns.get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, conn)
		}
		for _, conn := range idle {
			d.conns.put(conn)
		}
		for _, conn := range idle {
			if _, err := admin.Exec(ctx, "SELECT pg_terminate_backend($1, 5000)", conn.PgConn().PID()); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, raw, w.announce(c, raw), "ok")
		expect(t, "mark", w.mark(f), "ok:"+strconv.Itoa(34+i))
	}
}
