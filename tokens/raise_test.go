package tokens

import (
	"fmt"
	"strings"
	"testing"
)

// I3: a mark only goes up. Mutant "a lower token is no error": red.
func TestRaiseVerdicts(t *testing.T) {
	w := newWorld(t)
	b := w.dial("control")
	const raise = "SELECT r.raised FROM fence.raise($1, $2, $3, 'x', $4) AS r"
	for _, tt := range []struct {
		what           string
		mark           int64 // negative: none
		epoch, counter int64
		jump           any
		want, then     string
	}{
		{"first", -1, 0, 34, 10, "ok:true", "ok:34"},
		{"first, high", -1, 0, 1 << 61, 10, "ok:true", "ok:2305843009213693952"},
		{"first, with an epoch", -1, 7, 3, 10, "ok:true", "ok:7.3"},
		{"first, no room above", -1, 0, 1<<62 + 1, nil, "ZF003", "ok"},
		{"first, int64 max", -1, 0, 1<<63 - 1, nil, "ZF003", "ok"},
		{"first, epoch out of range", -1, 1 << 31, 3, 10, "ZF003", "ok"},
		{"first, max.max", -1, 1<<63 - 1, 1<<63 - 1, nil, "ZF003", "ok"},
		{"higher", 33, 0, 34, 10, "ok:true", "ok:34"},
		{"equal", 33, 0, 33, 10, "ok:false", "ok:33"},
		{"lower", 33, 0, 32, 10, "ZF001", "ok:33"},
		{"as far as allowed", 33, 0, 43, 10, "ok:true", "ok:43"},
		{"jump", 33, 0, 44, 10, "ZF003", "ok:33"},
		{"jump without a limit", 33, 0, 1 << 61, nil, "ok:true", "ok:2305843009213693952"},
		{"out of range without a limit", 33, 0, 1<<62 + 1, nil, "ZF003", "ok:33"},
		{"higher epoch", 33, 1, 0, nil, "ZF003", "ok:33"},
		{"negative", 33, 0, -1, nil, "ZF003", "ok:33"},
	} {
		f := w.fence(tt.mark)
		expect(t, tt.what, b.do(raise, f, tt.epoch, tt.counter, tt.jump), tt.want)
		expect(t, tt.what+": mark", w.mark(f), tt.then)
	}
	for _, name := range []string{"", "a b", "a'b", "é", strings.Repeat("x", 201)} {
		expect(t, "name "+name, b.do(raise, name, 0, 1, nil), "ZF003")
	}
	f := w.fence(33)
	for _, level := range levels[1:] {
		b.must("BEGIN ISOLATION LEVEL " + level)
		expect(t, "raise in "+level, b.do(raise, f, 0, 34, nil), "ZF005")
		b.must("ROLLBACK")
	}
	// and it leaves nothing behind that the guard's xmax rule would stumble over (mutant: a BEFORE ROW trigger)
	b.must(raise, f, 0, 34, nil)
	expect(t, "xmax after a raise", w.su.do("SELECT xmax::text FROM fence.mark WHERE name = $1", f), "ok:0")
}

// A4, and two proxies at once: who comes second finds the mark of the first, also when there was no row to lock.
func TestTwoRaisesAtOnce(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name        string
		first, a, b int64
		wantB, then string
	}{
		{"same token", 33, 34, 34, "ok:false", "ok:34"}, {"second higher", 33, 34, 35, "ok:true", "ok:35"}, {"second lower", 33, 35, 34, "ZF001", "ok:35"},
		{"first raise ever, same", -1, 34, 34, "ok:false", "ok:34"}, {"first raise ever, higher", -1, 34, 35, "ok:true", "ok:35"}, {"first raise ever, lower", -1, 35, 34, "ZF001", "ok:35"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := w.fence(tt.first)
			a, b := w.dial("control"), w.dial("control")
			a.must("BEGIN")
			expect(t, "a", a.raise(f, tt.a).get(), "ok:true")
			p := b.raise(f, tt.b)
			expect(t, "b", p.state(), "waits")
			a.must("COMMIT")
			expect(t, "b", p.get(), tt.wantB)
			expect(t, "mark", w.mark(f), tt.then)
		})
	}
}

// I3, protect trigger. Mutants "not ENABLE ALWAYS", "no check of lowering": red.
func TestMarksAreProtected(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	for _, role := range []string{"origin", "replica"} {
		for sql, want := range map[string]string{
			"UPDATE fence.mark SET token = 32 WHERE name = $1":              "ZF004",
			"UPDATE fence.mark SET epoch = -1 WHERE name = $1":              "23514",
			"UPDATE fence.mark SET name = name || 'x' WHERE name = $1":      "ZF004",
			"UPDATE fence.mark SET id = DEFAULT WHERE name = $1":            "ZF004",
			"DELETE FROM fence.mark WHERE name = $1":                        "ZF004",
			"UPDATE fence.mark SET token = token WHERE name = $1":           "ok",
			"UPDATE fence.mark SET epoch = 1, token = 0 WHERE name = $1":    "ok",
			"INSERT INTO fence.mark (name, epoch, token) VALUES ($1, 0, 1)": "23505",
		} {
			w.su.must("SET session_replication_role = " + role)
			w.su.must("BEGIN")
			expect(t, role+": "+sql, w.su.do(sql, f), want)
			w.su.must("ROLLBACK")
		}
		w.su.must("BEGIN")
		expect(t, role+": TRUNCATE", w.su.do("TRUNCATE fence.mark"), "ZF004")
		w.su.must("ROLLBACK")
	}
	w.su.must("SET session_replication_role = origin")
	expect(t, "mark", w.mark(f), "ok:33")
}

// X2b: a DBA's own UPDATE of a mark waits for guarded transactions, as a raise does. Mutant "no lock in the trigger".
func TestHandMadeUpdateWaitsForGuards(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	a, b := w.dial("app"), w.dial("postgres")
	a.token(33)
	a.must("BEGIN")
	expect(t, "guard", a.guard(slow, f), "ok")
	p := b.start(func() string { return b.do("UPDATE fence.mark SET token = 40 WHERE name = $1", f) })
	expect(t, "UPDATE", p.state(), "waits")
	a.must("COMMIT")
	expect(t, "UPDATE", p.get(), "ok")
	expect(t, "guard", a.guard(inline, f), "ZF001")
	expect(t, "history", w.su.do("SELECT old_token, token FROM fence.history WHERE name = $1 ORDER BY id DESC LIMIT 1", f), "ok:33 40")
}

func TestHistoryIsBounded(t *testing.T) {
	w := newWorld(t)
	f, other := w.fence(-1), w.fence(5)
	w.su.must("DO $$ BEGIN FOR i IN 1..130 LOOP PERFORM fence.raise('" + f + "', 0, i, 'h' || i, NULL); END LOOP; END $$")
	h, err := History(ctx, w.su.Conn, f, 1000)
	if err != nil || len(h) != 100 {
		t.Fatalf("%d entries, %v", len(h), err)
	}
	if n := h[0]; n.To != (Token{0, 130}) || *n.From != (Token{0, 129}) || n.Holder != "h130" || n.By != "postgres" {
		t.Errorf("newest: %+v", n)
	}
	if h, _ := History(ctx, w.su.Conn, other, 10); len(h) != 1 || h[0].From != nil {
		t.Errorf("the other fence's: %+v", h)
	}
}

func TestBumpEpoch(t *testing.T) {
	w := newWorld(t)
	f := w.fence(9000)
	_, e := BumpEpoch(ctx, w.su.Conn, f, " ")
	expect(t, "without a reason", e.Code, CodeMalformed)
	_, e = BumpEpoch(ctx, w.su.Conn, "nowhere", "x")
	expect(t, "no such fence", e.Code, CodeMalformed)
	m, e := BumpEpoch(ctx, w.su.Conn, f, "restored from backup")
	if e != nil || m.Token != (Token{1, 0}) || m.ID != w.id(f) {
		t.Fatal(m, e)
	}
	h, _ := History(ctx, w.su.Conn, f, 1)
	if h[0].Reason != "restored from backup" || *h[0].From != (Token{0, 9000}) {
		t.Errorf("%+v", h[0])
	}
	w.su.must("SELECT fence.raise($1, 1, 12, '', NULL)", f)
	if h, _ := History(ctx, w.su.Conn, f, 1); h[0].Reason != "" {
		t.Errorf("the reason stayed: %+v", h[0])
	}
	a := w.dial("app")
	a.token(9000)
	expect(t, "old 9000 against 1.12", a.guard(inline, f), "ZF001")
	a.token("1.12")
	expect(t, "1.12", a.guard(inline, f), "ok")
}

// H5, B7: applications may guard and read marks, and nothing else in the schema. The control role may not raise epochs.
func TestHole5Privileges(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	for _, tt := range []struct{ user, sql, want string }{
		{"app", "SELECT (SELECT token FROM fence.mark WHERE name = $1)", "ok:33"},
		{"app", "SELECT fence.raise($1, 0, 34, 'x', NULL)", "42501"},
		{"app", "SELECT fence.bump_epoch($1, 'x')", "42501"},
		{"app", "SELECT * FROM fence.history WHERE name = $1", "42501"},
		{"app", "SELECT fence.status($1)", "42501"},
		{"app", "SELECT fence.blockers($1, NULL)", "42501"},
		{"app", "SELECT fence.guard_one($1, 0, 33)", "42501"},
		{"app", "UPDATE fence.mark SET token = 34 WHERE name = $1", "42501"},
		{"app", "SELECT 1 FROM fence.mark WHERE name = $1 FOR SHARE", "42501"},
		{"app", "DELETE FROM fence.mark WHERE name = $1", "42501"},
		{"control", "SELECT fence.bump_epoch($1, 'x')", "42501"},
		{"control", "UPDATE fence.mark SET token = 34 WHERE name = $1", "42501"},
		{"control", "SELECT count(*) FROM fence.status($1)", "ok:1"},
	} {
		s := w.dial(tt.user)
		expect(t, tt.user+": "+tt.sql, s.do(tt.sql, f), tt.want)
		s.Close(ctx)
	}
	// The whole list, so that a new function cannot slip in.
	expect(t, "functions open to PUBLIC", w.su.do(`SELECT string_agg(p.proname, ' ' ORDER BY p.proname) FROM pg_proc p
WHERE p.pronamespace = 'fence'::regnamespace AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0)`),
		"ok:ddl_drop ddl_end guard guard1 guard_or_pass_by guard_pattern guard_row guard_session guard_truncate guard_write has_mark inherit_guards inherit_row_tokens inherit_truncate_guards pass_by "+
			"row_check row_claim row_default row_find row_fits row_fitting row_matches row_missing row_new row_plain row_required row_scope row_scope_claim row_scope_fits row_scope_fitting row_scoped row_stale row_stamp row_text row_token row_token_of slot_done "+
			"trigger_arguments")
	expect(t, "relations open to PUBLIC", w.su.do(`SELECT string_agg(c.relname || ' ' || a.privilege_type, ' ') FROM pg_class c, aclexplode(c.relacl) a
WHERE c.relnamespace = 'fence'::regnamespace AND a.grantee = 0`), "ok:mark SELECT")
	expect(t, "not owned by fence_owner", w.su.do(`SELECT count(*) FROM (SELECT proowner o FROM pg_proc WHERE pronamespace = 'fence'::regnamespace
UNION ALL SELECT relowner FROM pg_class WHERE relnamespace = 'fence'::regnamespace UNION ALL SELECT nspowner FROM pg_namespace WHERE nspname = 'fence') x
WHERE o <> 'fence_owner'::regrole`), "ok:0")
}

// The lock key is unique per fence: these two names share their hashtext (H4's cousin, redteam 15).
// Mutant "key = hashtext(name)": the second raise waits.
func TestCollidingNamesDoNotShareALock(t *testing.T) {
	w := newWorld(t)
	one, two := "jobs/144001", "jobs/199320"
	expect(t, "hashtext", w.su.do("SELECT hashtext($1) = hashtext($2)", one, two), "ok:true")
	w.set(one, 1)
	w.set(two, 1)
	a, b := w.dial("app"), w.dial("control")
	a.token(one + "=1")
	a.must("BEGIN")
	expect(t, "guard", a.do(GuardSQL, []string{one}, ""), "ok:"+a.raw)
	expect(t, "raise of the other", b.raise(two, 2).state(), "ok:true")
	if list, err := Blockers(ctx, w.su.Conn, two); err != nil || len(list) != 0 {
		t.Errorf("blockers of the other: %v, %v", list, err)
	}
}

// The two constants in SQL and Go are one.
func TestLockClass(t *testing.T) {
	n := strings.Count(InstallSQL(), "_lock")
	if got := strings.Count(InstallSQL(), fmt.Sprint(LockClass)); got < 6 || n < 5 || !strings.Contains(GuardLockSQL, fmt.Sprint(LockClass)) {
		t.Errorf("LockClass %d is in the schema %d times", LockClass, got)
	}
	w := newWorld(t)
	f := w.fence(1)
	a := w.dial("app")
	a.token(1)
	for _, g := range forms {
		a.must("BEGIN")
		a.guard(g, f)
		expect(t, string(g), w.su.do("SELECT format('%s %s %s %s', classid, objid, objsubid, mode) FROM pg_locks WHERE locktype = 'advisory' AND pid = $1", a.pid), fmt.Sprintf("ok:%d %d 2 ShareLock", LockClass, w.id(f)))
		a.must("COMMIT")
	}
}
