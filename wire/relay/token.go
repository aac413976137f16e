package relay

import "github.com/fenceproxy/fenceproxy/tokens"

// presented is a value of fence.token as the session has it.
type presented struct {
	raw  string // "" when absent
	list tokens.List
}

func present(raw string) presented {
	l, err := tokens.Parse(raw)
	if err != nil {
		// The database will say so at the guard; without a list there is no fast form and no early refusal.
		l = nil
	}
	return presented{raw, l}
}

func (p presented) absent() bool { return p.raw == "" }

// tokenState is the engine's picture of the session's token. It is a guess: it chooses the form of a guard, and the
// database compares it with the truth. It refuses, and lets opaque statements of a session without a token pass, only
// when it is sure: the server has confirmed the value and nothing sent since may have changed it.
type tokenState struct {
	guess presented
	sure  bool
	// told is the serial at which the server told the value. It is sure at the next ReadyForQuery: until then an error can
	// take it back.
	told   uint64
	isTold bool
	// changed: something that may change the token was sent since the last transaction ended.
	changed bool
	serial  uint64 // counts what was sent that may change the token

	// SET LOCAL: what comes back when the transaction ends.
	base      presented
	baseSure  bool
	baseKept  bool
	onlyLocal bool // nothing but SET LOCAL changed the token since base was kept
}

// disturb: something that may change the token in a way the text does not tell was sent.
func (t *tokenState) disturb() {
	t.serial++
	t.sure, t.changed = false, true
	t.onlyLocal = false
}

// maybe reports whether the session may have a token.
func (t *tokenState) maybe() bool { return !t.sure || !t.guess.absent() }

// rolledBack: a ROLLBACK was sent. What SET LOCAL has changed comes back with the end of the transaction in any case.
func (t *tokenState) rolledBack() {
	if t.changed && !(t.baseKept && t.onlyLocal) {
		t.disturb()
	}
}

// rolledBackTo: a ROLLBACK TO SAVEPOINT was sent.
func (t *tokenState) rolledBackTo() {
	if t.changed {
		t.serial++
		t.sure = false
	}
}

// assign: a statement that assigns v was sent.
func (t *tokenState) assign(v presented, local bool) (serial uint64) {
	if local && !t.baseKept {
		t.base, t.baseSure, t.baseKept, t.onlyLocal = t.guess, t.sure, true, true
	}
	if !local {
		t.onlyLocal = false
		t.base, t.baseSure = v, false
	}
	t.serial++
	t.guess, t.sure, t.changed = v, false, true
	return t.serial
}

// confirmed: the server has completed the assignment with that serial.
func (t *tokenState) confirmed(serial uint64) {
	if t.serial == serial {
		t.told, t.isTold = serial, true
	}
}

// ready: ReadyForQuery, of a transaction that goes on or was committed.
func (t *tokenState) ready() {
	if t.isTold && t.told == t.serial {
		t.sure = true
	}
	t.isTold = false
}

// ending: the end of the transaction was sent. What comes after it is judged by what is known then.
func (t *tokenState) ending() {
	if t.changed {
		t.serial++
		t.sure = false
	}
}

// failed: an error may have taken back what the transaction assigned.
func (t *tokenState) failed() {
	t.isTold = false
	if t.changed {
		t.serial++
		t.sure = false
	}
}

// learn: the server told its value in answer to something sent when serial was the current one.
func (t *tokenState) learn(raw []byte, serial uint64) {
	if t.serial != serial {
		return
	}
	if t.guess.raw != string(raw) {
		t.guess = present(string(raw))
	}
	if t.changed {
		t.told, t.isTold = serial, true
		return
	}
	t.sure = true
}

// transactionEnded: ReadyForQuery 'I' with nothing outstanding. failed says that some statement since the last one failed:
// what was assigned may have been rolled back.
func (t *tokenState) transactionEnded(failed bool) {
	changed := t.changed
	t.changed = false
	if t.baseKept {
		t.guess = t.base
		t.sure = t.baseSure && t.onlyLocal
		t.base, t.baseKept = presented{}, false
		return
	}
	if failed && changed {
		t.sure = false
	}
}

// pendingToken is an assignment that the server has not answered.
type pendingToken struct{ serial uint64 }
