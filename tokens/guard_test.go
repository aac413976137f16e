package tokens

import (
	"strings"
	"testing"
)

// I2: a guard passes only if the token is the mark. Mutant "guard1 and the inline read do not compare the mark": red
// for stale and for unannounced tokens.
func TestGuardVerdicts(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	for _, g := range forms {
		for _, tt := range []struct{ raw, want string }{
			{"34", "ok"}, {"0.34", "ok"}, {" 34 ", "ok"}, {"0034", "ok"}, {"F=34", "ok"}, {"F=0.34", "ok"}, {"F=34,other=1", "ok"}, {"other=1,F=34", "ok"},
			{"33", "ZF001"}, {"F=33", "ZF001"}, {"other=34,F=33", "ZF001"}, {"F=33,other=34", "ZF001"},
			{"35", "ZF006"}, {"1.34", "ZF006"}, {"F=1.0", "ZF006"},
			{"", "ZF002"}, {"  ", "ZF002"}, {"other=34", "ZF002"}, {"xF=34", "ZF002"}, {"F4=34", "ZF002"},
			{"x", "ZF003"}, {"-34", "ZF003"}, {"34,34", "ZF003"}, {"9223372036854775808", "ZF003"},
		} {
			f := w.fence(34)
			a.token(strings.ReplaceAll(tt.raw, "F", f))
			expect(t, string(g)+" with "+a.raw, a.guard(g, f), tt.want)
		}
	}
}

// The first guard of a fence without a mark row: there is no id to lock, and it cannot pass.
func TestGuardWithoutMark(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	for _, g := range forms {
		f := w.fence(-1)
		a.token("34")
		expect(t, string(g), a.guard(g, f), "ZF006")
		a.token("")
		expect(t, string(g)+" without a token", a.guard(g, f), "ZF002")
	}
}

// I2, I4: the fast forms take nothing on trust. Mutants "no comparison with current_setting", "no check of the parse",
// "no check of the name", "missing row passes": each turns a line red.
func TestFastGuardTrustsNothing(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	f, other := w.fence(34), w.fence(33)
	m := Mark{ID: w.id(f), Name: f}
	tok := func(n int64) Token { return Token{Counter: n} }
	for _, g := range []form{fast, inline, alone} {
		for _, tt := range []struct {
			what, setting string
			m             Mark
			raw           string
			tok           Token
			want          string
		}{
			{"true hint", "34", m, "34", tok(34), "ok"},
			{"raw is not the setting", "33", m, "34", tok(34), "ZF001"},
			{"parse is not of the raw text", "33", m, "33", tok(34), "ZF001"},
			{"parse of a named item is wrong", f + "=33", m, f + "=33", tok(34), "ZF001"},
			{"token of another fence's item", "x" + f + "=34," + f + "=33", m, "x" + f + "=34," + f + "=33", tok(34), "ZF001"},
			{"wrong parse of a right token", "34", m, "34", tok(33), "ok:34"},
			{"another mark's id", "33", Mark{ID: w.id(other), Name: f}, "33", tok(33), "ZF001"},
			{"an id that does not exist", "33", Mark{ID: 1 << 30, Name: f}, "33", tok(33), "ZF001"},
			{"an id that does not exist, right token", "34", Mark{ID: 1 << 30, Name: f}, "34", tok(34), "ok:34"},
			{"empty setting", "", m, "34", tok(34), "ZF002"},
		} {
			a.token(tt.setting)
			got := a.guardAs(g, tt.m, tt.raw, tt.tok, f)
			expect(t, string(g)+": "+tt.what, strings.TrimSuffix(got, ":34"), strings.TrimSuffix(tt.want, ":34"))
		}
	}
	fresh := w.dial("app") // fence.token was never set: current_setting is NULL
	for _, g := range []form{fast, inline, alone} {
		expect(t, string(g)+": no setting", fresh.guardAs(g, m, "34", tok(34), f), "ZF002")
	}
}

// I2, I4: the form of constants knows the whole text, by the mark's own words. Mutant "no comparison with
// current_setting", "no comparison of the epoch", "no check of the name": each turns a line red.
func TestGuardOfOneFenceTrustsNothing(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	f, other := w.fence(34), w.fence(33)
	w.su.must("UPDATE fence.mark SET epoch = 7, token = 34 WHERE name = $1", other)
	for _, tt := range []struct {
		what, setting string
		m             Mark // as the caller believes it to be
		raw           string
		want          string
	}{
		{"right", "34", Mark{ID: w.id(f), Name: f, Token: Token{0, 34}}, "34", "ok:34"},
		{"right, named", f + "=34", Mark{ID: w.id(f), Name: f, Token: Token{0, 34}}, f + "=34", "ok:" + f + "=34"},
		{"another token than believed, the mark", "34", Mark{ID: w.id(f), Name: f, Token: Token{0, 33}}, "33", "ok:34"},
		{"another token than believed, stale", "33", Mark{ID: w.id(f), Name: f, Token: Token{0, 34}}, "34", "ZF001"},
		{"another epoch than believed", "34", Mark{ID: w.id(other), Name: other, Token: Token{0, 34}}, "34", "ZF001"},
		{"with its epoch", "7.34", Mark{ID: w.id(other), Name: other, Token: Token{7, 34}}, "7.34", "ok:7.34"},
		{"with its epoch, named", other + "=7.34", Mark{ID: w.id(other), Name: other, Token: Token{7, 34}}, other + "=7.34", "ok:" + other + "=7.34"},
		{"with an epoch, of a mark without", "7.34", Mark{ID: w.id(f), Name: f, Token: Token{7, 34}}, "7.34", "ZF006"},
		{"another fence by the id", other + "=7.34", Mark{ID: w.id(other), Name: f, Token: Token{7, 34}}, f + "=7.34", "ZF002"},
		{"another fence in the setting", other + "=34", Mark{ID: w.id(f), Name: f, Token: Token{0, 34}}, f + "=34", "ZF002"},
		{"an id that does not exist", "34", Mark{ID: 1 << 30, Name: f, Token: Token{0, 34}}, "34", "ok:34"},
		{"an id that does not exist, stale", "33", Mark{ID: 1 << 30, Name: f, Token: Token{0, 33}}, "33", "ZF001"},
		{"no setting", "", Mark{ID: w.id(f), Name: f, Token: Token{0, 34}}, "34", "ZF002"},
	} {
		bare := tt.m.Name
		named, ok := Alone(tt.raw, tt.m, bare)
		if !ok {
			t.Fatalf("%s: not alone", tt.what)
		}
		a.token(tt.setting)
		a.must(string(AppendLockSQL(nil, tt.m)))
		expect(t, tt.what, a.do(string(AppendReadSQL(nil, tt.m, named, bare))), tt.want)
	}
}

func TestAlone(t *testing.T) {
	m := Mark{5, "billing", Token{0, 34}}
	for _, tt := range []struct {
		raw, bare string
		epoch     int64
		want      string
	}{
		{"34", "billing", 0, "bare"}, {"billing=34", "billing", 0, "named"}, {"billing=34", "", 0, "named"}, {"7.34", "billing", 7, "bare"},
		{"billing=7.34", "other", 7, "named"},
		{"34", "", 0, "no"}, {"34", "other", 0, "no"}, {"34", "billing", 7, "no"}, {"0.34", "billing", 0, "no"}, {"034", "billing", 0, "no"},
		{" 34", "billing", 0, "no"}, {"billing=34,other=1", "billing", 0, "no"}, {"xbilling=34", "billing", 0, "no"}, {"", "billing", 0, "no"},
		{"134", "billing", 0, "no"}, {"other=34", "billing", 0, "no"},
	} {
		m.Token.Epoch = tt.epoch
		got := "no"
		switch named, ok := Alone(tt.raw, m, tt.bare); {
		case ok && named:
			got = "named"
		case ok:
			got = "bare"
		}
		expect(t, tt.raw+" with bare tokens of "+tt.bare, got, tt.want)
	}
}

func TestGuardSession(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	f, h := w.fence(34), w.fence(7)
	for _, tt := range []struct {
		raw, bare string
		tokenless bool
		want      string
	}{
		{"", f, true, "ok"}, {"", f, false, "ZF002"}, {" ", "", true, "ok: "},
		{"34", f, false, "ok:34"}, {"34", "", false, "ZF003"}, {"33", f, true, "ZF001"},
		{f + "=34," + h + "=7", "", false, "ok:" + f + "=34," + h + "=7"}, {f + "=34," + h + "=6", "", false, "ZF001"}, {"34," + h + "=8", f, false, "ZF006"},
		{"34," + f + "=34", f, false, "ZF003"}, {"nowhere=1", "", false, "ZF006"}, {"garbage", f, true, "ZF003"},
	} {
		a.token(tt.raw)
		expect(t, "guard_session with "+tt.raw, a.do(string(AppendGuardSession(nil, tt.bare, tt.tokenless))), tt.want)
		expect(t, "prepared, with "+tt.raw, a.do(GuardSessionSQL, tt.bare, tt.tokenless), tt.want)
	}
	// what it passed it has locked
	a.token(f + "=34," + h + "=7")
	a.must("BEGIN")
	a.must(GuardSessionSQL, "", false)
	b := w.dial("control")
	p := b.raise(h, 8)
	expect(t, "raise", p.state(), "waits")
	a.must("COMMIT")
	expect(t, "raise", p.get(), "ok:true")
}

// X1a, A1. I2: held to the end of the transaction. Mutant "no lock in the guard": the raise does not wait.
func TestRaiseWaitsForGuardedTransactionThenStale(t *testing.T) {
	eachLevelAndForm(t, func(t *testing.T, w *world, level string, g form) {
		f := w.fence(33)
		a, b := w.dial("app"), w.dial("control")
		a.token(33)
		a.must("BEGIN ISOLATION LEVEL " + level)
		expect(t, "guard", a.guard(g, f), "ok")
		a.must("UPDATE t SET v = v + 1 WHERE id = 1")
		p := b.raise(f, 34)
		expect(t, "raise", p.state(), "waits")
		a.must("COMMIT")
		expect(t, "raise", p.get(), "ok:true")
		a.must("BEGIN ISOLATION LEVEL " + level)
		expect(t, "later guard", a.guard(g, f), "ZF001")
		a.must("ROLLBACK")
	})
}

// H10, X1b, A2, A2b. Mutant "no xmax rule": a stale token passes above READ COMMITTED.
func TestHole10SnapshotOlderThanTheRaise(t *testing.T) {
	eachLevelAndForm(t, func(t *testing.T, w *world, level string, g form) {
		f := w.fence(33)
		a := w.dial("app")
		a.token(33)
		a.must("BEGIN ISOLATION LEVEL " + level)
		a.must("SELECT count(*) FROM t")
		w.set(f, 34)
		want := "40001" // above READ COMMITTED the transaction cannot be saved, nor told apart
		if level == levels[0] {
			want = "ZF001"
		}
		expect(t, "stale", a.guard(g, f), want)
		a.must("ROLLBACK")
		a.must("BEGIN ISOLATION LEVEL " + level)
		expect(t, "retry", a.guard(g, f), "ZF001")
		a.must("ROLLBACK")

		f = w.fence(33)
		a.token(34)
		a.must("BEGIN ISOLATION LEVEL " + level)
		a.must("SELECT count(*) FROM t")
		w.set(f, 34)
		if level == levels[0] {
			want = "ok"
		}
		expect(t, "the new holder, before its own announce", a.guard(g, f), want)
		a.must("ROLLBACK")
	})
}

// X1c, A3: the guard waits for a raise that has the lock and not committed. After its ROLLBACK the guard passes.
func TestGuardWaitsForUncommittedRaise(t *testing.T) {
	eachLevelAndForm(t, func(t *testing.T, w *world, level string, g form) {
		for _, end := range []string{"COMMIT", "ROLLBACK"} {
			f := w.fence(33)
			a, b := w.dial("app"), w.dial("control")
			b.must("BEGIN")
			b.must("SELECT fence.raise($1, 0, 34, 'b', NULL)", f)
			a.token(33)
			a.must("BEGIN ISOLATION LEVEL " + level)
			id := w.id(f)
			p := a.start(func() string { return a.guardAs(g, Mark{ID: id, Name: f}, "33", Token{Counter: 33}, f) })
			expect(t, "guard", p.state(), "waits")
			b.must(end)
			want := map[string]string{"COMMIT": "40001", "ROLLBACK": "ok"}[end]
			if end == "COMMIT" && level == levels[0] {
				want = "ZF001"
			}
			expect(t, "guard after "+end, p.get(), want)
			a.must("ROLLBACK")
		}
	})
}

// X1d, A7, and the READ ONLY hole (H7): what frees the lock and what does not.
func TestWhatFreesTheLock(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []string // "guard" is the guard
		free  bool
	}{
		{"guard after the savepoint, ROLLBACK TO", []string{"SAVEPOINT s", "guard", "ROLLBACK TO s"}, true},
		{"guard before the savepoint, ROLLBACK TO", []string{"guard", "SAVEPOINT s", "guard", "ROLLBACK TO s"}, false},
		{"RELEASE", []string{"SAVEPOINT s", "guard", "RELEASE s"}, false},
		{"unlock functions", []string{"guard", "SELECT pg_advisory_unlock_all()", "SELECT pg_advisory_unlock_shared(1178947139, @ID@)"}, false},
		{"READ ONLY undone by RELEASE", []string{"SAVEPOINT s", "SET TRANSACTION READ ONLY", "guard", "RELEASE s"}, false},
		{"EXCEPTION block after the guard", []string{"guard", "DO $$ BEGIN BEGIN PERFORM fence.guard('{@F@}', '@F@'); RAISE 'x'; EXCEPTION WHEN raise_exception THEN END; END $$"}, false},
		{"guard in an EXCEPTION block", []string{"DO $$ BEGIN BEGIN PERFORM fence.guard('{@F@}', '@F@'); RAISE 'x'; EXCEPTION WHEN raise_exception THEN END; END $$"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachLevelAndForm(t, func(t *testing.T, w *world, level string, g form) {
				f := w.fence(33)
				a, b := w.dial("app"), w.dial("control")
				a.token(33)
				a.must("BEGIN ISOLATION LEVEL " + level)
				for _, step := range tt.steps {
					if step == "guard" {
						expect(t, "guard", a.guard(g, f), "ok")
						continue
					}
					a.must(strings.NewReplacer("@ID@", "(SELECT id FROM fence.mark WHERE name = '"+f+"')", "@F@", f).Replace(step))
				}
				p := b.raise(f, 34)
				want := "waits"
				if tt.free {
					want = "ok:true"
				}
				expect(t, "raise", p.state(), want)
				if tt.free {
					want = "40001"
					if level == levels[0] {
						want = "ZF001"
					}
					expect(t, "guard again", a.guard(g, f), want)
				}
				a.must("ROLLBACK")
				expect(t, "raise", p.get(), "ok:true")
			})
		})
	}
}

// A9: a guard in a READ ONLY transaction locks and checks as anywhere. The client's write then gets its own 25006.
func TestGuardInReadOnly(t *testing.T) {
	eachLevelAndForm(t, func(t *testing.T, w *world, level string, g form) {
		f := w.fence(34)
		a, b := w.dial("app"), w.dial("control")
		a.token(34)
		a.must("BEGIN READ ONLY ISOLATION LEVEL " + level)
		expect(t, "guard", a.guard(g, f), "ok")
		p := b.raise(f, 35)
		expect(t, "raise", p.state(), "waits")
		expect(t, "write", a.do("UPDATE t SET v = 0 WHERE id = 1"), "25006")
		a.must("ROLLBACK")
		expect(t, "raise", p.get(), "ok:true")

		// A raise that rolled back leaves its xmax on the mark: no reason to fail in READ COMMITTED, and nothing can tell
		// it from a real one in an old snapshot.
		f = w.fence(34)
		w.su.must("BEGIN")
		w.su.must("SELECT fence.raise($1, 0, 35, '', NULL)", f)
		w.su.must("ROLLBACK")
		a.must("BEGIN READ ONLY ISOLATION LEVEL " + level)
		want := "40001"
		if level == levels[0] {
			want = "ok"
		}
		expect(t, "guard after a raise that rolled back", a.guard(g, f), want)
		a.must("ROLLBACK")
		a.must("BEGIN ISOLATION LEVEL " + level)
		expect(t, "the same in READ WRITE", a.guard(g, f), "ok")
		a.must("ROLLBACK")
	})
}

func TestReadUncommittedIsReadCommitted(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	for _, g := range forms {
		f := w.fence(33)
		a.token(33)
		a.must("BEGIN ISOLATION LEVEL READ UNCOMMITTED")
		a.must("SELECT count(*) FROM t")
		w.set(f, 34)
		expect(t, string(g), a.guard(g, f), "ZF001")
		a.must("ROLLBACK")
		a.token(34)
		a.must("BEGIN ISOLATION LEVEL READ UNCOMMITTED")
		expect(t, string(g), a.guard(g, f), "ok")
		a.must("ROLLBACK")
	}
}

// The guard's errors say which fence, which token, which mark, since when, and who.
func TestGuardErrorFields(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	f := w.fence(-1)
	w.su.must("SELECT fence.raise($1, 0, 34, 'worker-b', NULL)", f)
	a.token("33")
	_, err := a.Exec(ctx, string(AppendGuard(nil, []string{f}, f)))
	e := FromDatabase(f, err)
	if !strings.Contains(e.Message, `"`+f+`": 33 is lower than the mark 34`) || e.Hint != hintStale ||
		!strings.HasPrefix(e.Detail, `Fence "`+f+`": token of the session 33, mark 34 since 20`) || !strings.HasSuffix(e.Detail, ` UTC, holder "worker-b".`) {
		t.Errorf("%#v", e)
	}
	if early := Stale(f, Token{Counter: 33}, Token{Counter: 34}); early.Message != e.Message || early.Hint != e.Hint {
		t.Errorf("from memory: %#v", early)
	}
}
