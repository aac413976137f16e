package tokens

import (
	"testing"
)

// A slot is begun once, ended by the token that began it, and repeated only when asked, under a higher token.
func TestSlots(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	c := w.dial("control")
	begin := func(slot string, token int64, again bool) (bool, SlotState, Slot) {
		t.Helper()
		run, state, found, err := BeginSlot(ctx, c.Conn, f, slot, Token{0, token}, "node", again)
		if err != nil {
			t.Fatal(err)
		}
		return run, state, found
	}
	end := func(slot string, token int64, code int) bool {
		t.Helper()
		ours, err := EndSlot(ctx, c.Conn, f, slot, Token{0, token}, code)
		if err != nil {
			t.Fatal(err)
		}
		return ours
	}
	type beginning struct {
		slot  string
		token int64
		again bool
		run   bool
		state SlotState
	}
	check := func(b beginning) Slot {
		t.Helper()
		run, state, found := begin(b.slot, b.token, b.again)
		if run != b.run || !run && state != b.state {
			t.Errorf("%+v: run %v, %s", b, run, state)
		}
		return found
	}
	check(beginning{"a", 33, false, true, ""})
	check(beginning{"a", 33, true, false, SlotRunning}) // its own
	check(beginning{"a", 34, false, false, SlotRunning})
	if !end("a", 33, 0) || end("a", 34, 0) {
		t.Error("ended by another token, or not by its own")
	}
	if s := check(beginning{"a", 35, true, false, SlotDone}); s.Holder != "node" || s.Token != (Token{0, 33}) || s.EndedAt.IsZero() || s.Attempts != 1 {
		t.Errorf("%+v", s)
	}
	check(beginning{"b", 33, false, true, ""})
	end("b", 33, 7)
	if s := check(beginning{"b", 34, false, false, SlotFailed}); s.ExitCode != 7 {
		t.Errorf("%+v", s)
	}
	if s := check(beginning{"b", 34, true, true, ""}); s.Attempts != 2 {
		t.Errorf("%+v", s)
	}
	check(beginning{"b", 33, true, false, SlotStale})
	if end("b", 33, 0) {
		t.Error("the lost run ended the slot of the next")
	}
	w.su.must("SELECT fence.raise($1, 0, 36, 'seed', NULL)", f)
	check(beginning{"c", 35, true, false, SlotStale})
}

// The job's own record is part of its transaction, and guarded. Mutants: slot_done without the guard; without the compare.
func TestSlotDone(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	c := w.dial("control")
	app := w.dial("app")
	run := func(slot string) {
		t.Helper()
		if ok, state, _, err := BeginSlot(ctx, c.Conn, f, slot, Token{0, 33}, "node", false); !ok {
			t.Fatal(state, err)
		}
	}
	state := func(slot string) string {
		return w.su.do("SELECT state FROM fence.slot WHERE lock = $1 AND slot = $2", f, slot)
	}
	run("a")
	expect(t, "without a token", app.do("SELECT fence.slot_done($1, 'a')", f), "ZF002")
	app.token(f + "=33")
	expect(t, "of no run", app.do("SELECT fence.slot_done($1, 'other')", f), "ZF001")
	app.must("BEGIN")
	app.must("SELECT fence.slot_done($1, 'a')", f)
	app.must("ROLLBACK")
	expect(t, "rolled back", state("a"), "ok:running")
	app.must("SELECT fence.slot_done($1, 'a')", f)
	expect(t, "done", state("a"), "ok:done")
	expect(t, "twice", app.do("SELECT fence.slot_done($1, 'a')", f), "ZF001")
	if ours, err := EndSlot(ctx, c.Conn, f, "a", Token{0, 33}, 1); !ours || err != nil {
		t.Error(ours, err)
	}
	expect(t, "what the job has recorded stays", state("a"), "ok:done")
	run("b")
	w.su.must("SELECT fence.raise($1, 0, 34, 'seed', NULL)", f)
	expect(t, "stale", app.do("SELECT fence.slot_done($1, 'b')", f), "ZF001")
	expect(t, "not done by the zombie", state("b"), "ok:running")
}

// A slot of a schedule is forgotten after 400 days, one that is named by a key never is.
func TestKeysAreNotForgotten(t *testing.T) {
	w := newWorld(t)
	f := w.fence(33)
	c := w.dial("control")
	begin := func(slot string) bool {
		t.Helper()
		run, _, _, err := BeginSlot(ctx, c.Conn, f, slot, Token{0, 33}, "node", false)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	for _, slot := range []string{"key=once", "@daily 2024-01-01T00:00:00Z"} {
		if !begin(slot) {
			t.Fatalf("%s is not run", slot)
		}
		if _, err := EndSlot(ctx, c.Conn, f, slot, Token{0, 33}, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.su.must("UPDATE fence.slot SET ended_at = now() - interval '500 days' WHERE lock = $1", f)
	if begin("key=once") {
		t.Error("a key is run twice")
	}
	if !begin("@daily 2024-01-01T00:00:00Z") {
		t.Error("a slot of long ago is remembered")
	}
}
