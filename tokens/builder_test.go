package tokens

import (
	"strings"
	"testing"
)

func TestBuilders(t *testing.T) {
	m := Mark{ID: 7, Name: "jobs/42"}
	for _, tt := range []struct{ got, want string }{
		{string(AppendFastGuard(nil, m, "jobs/42=1.34", Token{1, 34}, "")), "SELECT fence.guard1('jobs/42',7,'jobs/42=1.34',1,34,'')"},
		{string(AppendFastGuard([]byte("x;"), m, "34", Token{0, 34}, "jobs/42")), "x;SELECT fence.guard1('jobs/42',7,'34',0,34,'jobs/42')"},
		{string(AppendGuard(nil, []string{"a", "b"}, "a")), "SELECT fence.guard(ARRAY['a','b'],'a')"},
		{string(AppendGuardSession(nil, "a", true)), "SELECT fence.guard_session('a',true)"},
		{string(AppendGuardReadOnly(nil, "a", true)), "SELECT CASE WHEN COALESCE(fence.guard_session('a',true), '') OPERATOR(pg_catalog.~) '[0-9]' THEN '' ELSE pg_catalog.set_config('transaction_read_only', 'on', true) END"},
		{string(AppendGuardSession(nil, "", false)), "SELECT fence.guard_session('',false)"},
		// a raw text that is no token list never gets into a literal
		{string(AppendFastGuard(nil, m, "34'); DROP TABLE t --", Token{0, 34}, "")), "SELECT fence.guard(ARRAY['jobs/42'],'')"},
		{string(AppendFastGuard(nil, m, `34\`, Token{0, 34}, "")), "SELECT fence.guard(ARRAY['jobs/42'],'')"},
		{string(AppendFastGuard(nil, m, "\x8134", Token{0, 34}, "")), "SELECT fence.guard(ARRAY['jobs/42'],'')"},
		{string(AppendFastGuard(nil, m, "34\n", Token{0, 34}, "")), "SELECT fence.guard(ARRAY['jobs/42'],'')"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
	for _, text := range []string{GuardLockSQL, GuardReadSQL, GuardSQL, GuardSessionSQL, SessionQuestionSQL} {
		if strings.ContainsAny(text, ";\n") {
			t.Error("not one statement on one line:", text)
		}
	}
}

func TestBuildersDoNotAllocate(t *testing.T) {
	dst, fences := make([]byte, 0, 512), []string{"billing", "jobs/42"}
	n := testing.AllocsPerRun(100, func() {
		AppendFastGuard(dst, Mark{7, "billing", Token{0, 34}}, "34", Token{0, 34}, "billing")
		AppendGuard(dst, fences, "billing")
		AppendGuardSession(dst, "billing", true)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSessionQuestion(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	ask := func() (token *string, rest string) {
		var db, system, recovery, user string
		if err := a.QueryRow(ctx, SessionQuestionSQL).Scan(&token, &db, &system, &recovery, &user); err != nil {
			t.Fatal(err)
		}
		return token, strings.Join([]string{db, system, recovery, user}, " ")
	}
	want := strings.Join([]string{w.db, w.systemID, "f", "app"}, " ")
	token, rest := ask()
	if token != nil || rest != want {
		t.Error(token, rest)
	}
	a.token("34")
	a.must("SET search_path = pg_temp")
	if token, rest = ask(); token == nil || *token != "34" || rest != want {
		t.Error(token, rest)
	}
}

// B2: where a token comes from and how it ends is PostgreSQL's business; the guard reads current_setting at that moment.
func TestTokenSources(t *testing.T) {
	w := newWorld(t)
	f := w.fence(34)
	g := string(AppendGuard(nil, []string{f}, f))
	a := w.dial("app")
	for _, step := range []struct{ sql, want string }{
		{g, "ZF002"}, {"BEGIN", "ok"}, {"SET LOCAL fence.token = '34'", "ok"}, {g, "ok:34"}, {"COMMIT", "ok"}, {g, "ZF002"},
		{"BEGIN", "ok"}, {"SET fence.token = '34'", "ok"}, {"ROLLBACK", "ok"}, {g, "ZF002"},
		{"SET fence.token = '34'", "ok"}, {g, "ok:34"}, {"DISCARD ALL", "ok"}, {g, "ZF002"},
		{"SET fence.token = '34'", "ok"}, {"BEGIN", "ok"}, {"SAVEPOINT s", "ok"}, {"SET fence.token = '33'", "ok"}, {g, "ZF001"}, {"ROLLBACK TO s", "ok"}, {g, "ok:34"}, {"COMMIT", "ok"},
		{"RESET fence.token", "ok"}, {g, "ZF002"},
	} {
		expect(t, step.sql, a.do(step.sql), step.want)
	}
}

// B3: the token changes after the guard: the lock stays until the end, the next guard looks anew; a higher token that
// was not announced is no deadlock, but ZF006.
func TestTokenChangesInTheTransaction(t *testing.T) {
	w := newWorld(t)
	f := w.fence(34)
	a, b, c := w.dial("app"), w.dial("app"), w.dial("control")
	for _, s := range []*session{a, b} {
		s.token(34)
		s.must("BEGIN")
		expect(t, "guard", s.guard(inline, f), "ok")
		s.token(35)
	}
	p := c.raise(f, 36)
	expect(t, "raise", p.state(), "waits")
	expect(t, "a", a.guard(slow, f), "ZF006")
	expect(t, "b", b.guard(slow, f), "ZF006")
	expect(t, "raise", p.get(), "ok:true")
}

// A6, X2: all fences of a statement in one guard, in one order: no deadlock, whatever order the caller has.
func TestSeveralFences(t *testing.T) {
	w := newWorld(t)
	one, two := w.fence(1), w.fence(2)
	a, b, c := w.dial("app"), w.dial("app"), w.dial("control")
	raw := two + "=2," + one + "=1"
	for _, s := range []*session{a, b} {
		s.token(raw)
		s.must("BEGIN")
	}
	expect(t, "a", a.do(GuardSQL, []string{one, two}, ""), "ok:"+raw)
	expect(t, "b", b.do(GuardSQL, []string{two, one, two}, ""), "ok:"+raw)
	p := c.raise(two, 3)
	expect(t, "raise", p.state(), "waits")
	a.must("COMMIT")
	b.must("COMMIT")
	expect(t, "raise", p.get(), "ok:true")
	expect(t, "one of them stale", a.do(GuardSQL, []string{one, two}, ""), "ZF001")
	expect(t, "the other alone", a.do(GuardSQL, []string{one}, ""), "ok:"+raw)
	expect(t, "none", a.do("SELECT fence.guard('{}', '')"), "ZF005")
	expect(t, "null", a.do("SELECT fence.guard(NULL, NULL)"), "ZF005")
}
