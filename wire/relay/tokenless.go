package relay

import (
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// A session that may not write without a token is kept from it transaction by transaction: a guard in front of the
// statement finds the session without a token, and makes the transaction read-only (tokens.GuardReadOnlySQL). From there on
// PostgreSQL refuses to make it writable again, and a transaction that comes later has a guard of its own. So no setting
// of the session has to be defended against the client, and a token that is presented later counts at once.

// knownToken reports whether the session has a token that was announced: what the server has confirmed, and nothing sent
// since may have changed. On a standby none is announced, and nothing written.
func (e *Engine) knownToken() bool {
	return e.token.sure && len(e.token.guess.list) > 0 && (e.token.guess.raw == e.announced || e.session.InRecovery)
}

// watched reports whether even statements that are known not to write need a guard: text is no proof.
func (e *Engine) watched() bool {
	return e.cfg.Tokenless == TokenlessReadOnly && e.enforcing() && !e.knownToken()
}

// readOnlyWithoutToken reports whether the statement must not write if the session has no token.
func (e *Engine) readOnlyWithoutToken(st *rewrite.Statement) bool {
	if e.cfg.Tokenless == TokenlessReadWrite || !e.enforcing() || e.knownToken() {
		return false
	}
	switch st.Kind {
	case rewrite.KindPrepare: // it is EXECUTE that runs it
		return false
	case rewrite.KindCommit, rewrite.KindCommitChain, rewrite.KindPrepareTx:
		return e.tx.released
	case rewrite.KindOther, rewrite.KindExecute, rewrite.KindDeclare, rewrite.KindFetch, rewrite.KindCopyIn,
		rewrite.KindCopyOut, rewrite.KindCall, rewrite.KindDo, rewrite.KindNoBlock, rewrite.KindCommitPrepared:
		if e.cfg.Tokenless == TokenlessReadOnly {
			return true
		}
	}
	return st.Effect >= rewrite.EffectOpaque
}

// resetChecked is the first major version that lets nobody RESET transaction_read_only (guc.c GUC_NO_RESET). Before, RESET is
// not checked as SET is, and makes the transaction writable again.
const resetChecked = 16

func (e *Engine) addTokenless(d *demand, st *rewrite.Statement) {
	if st.MayLiftReadOnly && e.serverMajor < resetChecked && e.cfg.Tokenless != TokenlessReadWrite && e.enforcing() && !e.knownToken() {
		d.readOnly, d.someToken = true, true
	}
	if !e.readOnlyWithoutToken(st) || e.unguardable(st) {
		return
	}
	d.readOnly = true
	d.someToken = d.someToken || st.PastReadOnly
}

// unguardable: nothing can run in the statement's transaction before it.
func (e *Engine) unguardable(st *rewrite.Statement) bool {
	return st.Kind == rewrite.KindNoBlock || st.Kind == rewrite.KindCommitPrepared
}

// refusalOfTokenless is why a statement must not run in a session that may have no token: no guard can stand in front of it,
// or it may leave the transaction of its guard. Behind a guard in the same string, CALL and DO cannot commit (2D000); behind
// one in messages of its own they can.
func (e *Engine) refusalOfTokenless(p *rewrite.Plan, extended bool) *refusal {
	if e.cfg.Tokenless == TokenlessReadWrite || e.tx.aborted {
		return nil
	}
	for i := range p.Statements {
		st := &p.Statements[i]
		if !e.readOnlyWithoutToken(st) {
			continue
		}
		call := st.Kind == rewrite.KindCall || st.Kind == rewrite.KindDo
		switch {
		case e.unguardable(st):
			return &refuseTokenless
		case call && extended && !e.tx.block:
			return &refuseTokenlessCall
		}
	}
	return nil
}

var refuseTokenless = refusal{Error: tokens.Error{
	Code:    tokens.CodeRequired,
	Message: "a fencing token is required, and the session has none",
	Detail:  "Sessions without a token only read (tokenless), and nothing can see to that for this statement.",
}, by: ByProxy}

var refuseTokenlessCall = refusal{Error: tokens.Error{
	Code:    tokens.CodeRequired,
	Message: "a fencing token is required for CALL and DO outside of a transaction block, and the session has none",
	Detail:  "They may commit inside, and what follows would not be read-only (tokenless).",
	Hint:    "Begin a transaction first, or present a token.",
}, by: ByProxy}

// commitWaits pauses a COMMIT that is to be guarded until it is known whether the transaction has failed: a failed one it
// ends, and the guard in front of it would be what fails instead.
func (e *Engine) commitWaits(p *rewrite.Plan) (paused bool) {
	if st := lone(p); st == nil || e.syncs == 0 || e.copyIn || !e.enforcing() || !e.tx.released || st.Kind != rewrite.KindCommit {
		return false
	}
	e.act.pause = pauseQuiet
	return true
}

// sentReadOnly is the last guard that was sent to make the transaction read-only.
type sentReadOnly struct {
	sent          bool
	block         bool
	epoch, serial uint64 // of the transaction and of the token
	segment       uint64
}

// readOnlySent reports whether whatever is sent now runs behind such a guard: in the same segment the server executes
// nothing behind a failed one, nor later in the same block.
func (e *Engine) readOnlySent() bool {
	s := &e.readOnly
	return s.sent && s.epoch == e.tx.epoch && s.serial == e.token.serial &&
		(s.segment == e.segment || s.block && e.tx.block)
}

// readOnlyBeforeBind puts the guard in front of the current Bind, because that may run code: the planner evaluates functions
// that claim to be immutable. A portal that is never executed needs it too.
func (e *Engine) readOnlyBeforeBind(v verdict) {
	if e.cfg.Tokenless == TokenlessReadWrite || !e.enforcing() || e.tx.aborted {
		return
	}
	d := e.demandOfVerdict(v)
	d = demand{readOnly: d.readOnly, shape: d.shape}
	e.unheld(&d)
	if d.readOnly && !e.readOnlySent() {
		e.tx.touchedNow = true
		e.guardSessionSlowly(&d)
	}
}

// guardSessionSlowly sends the part of d that is about all of the session's tokens.
func (e *Engine) guardSessionSlowly(d *demand) {
	switch only := d.ofSession(); {
	case only.readOnly:
		e.readOnly = sentReadOnly{sent: true, block: e.tx.block, epoch: e.tx.epoch, serial: e.token.serial, segment: e.segment}
		e.guardSlowly(reservedReadOnly, only, GuardReadOnly)
	case !only.none():
		e.guardSlowly(reservedSession, only, GuardSession)
	}
}

// spliceSessionGuard is the same in a string.
func (e *Engine) spliceSessionGuard(run *queryRun, statement int, d *demand) {
	only := d.ofSession()
	switch {
	case only.readOnly:
		e.rec.Guard(GuardReadOnly)
		e.cmem = tokens.AppendGuardReadOnly(e.cmem, e.cfg.Bare, e.tokenlessPasses(&only))
	case !only.none():
		e.rec.Guard(GuardSession)
		e.cmem = tokens.AppendGuardSession(e.cmem, e.cfg.Bare, e.tokenlessPasses(&only))
	default:
		return
	}
	e.cmem = append(e.cmem, ';')
	run.steps = append(run.steps, step{statement: statement, injected: true, guard: e.newRun(only)})
}

func (d *demand) ofSession() demand {
	return demand{session: d.session, readOnly: d.readOnly, someToken: d.someToken, shape: d.shape}
}

// mustKnow reports whether what becomes of a statement depends on whether the session has a token, and cannot be left to
// the database.
func (e *Engine) mustKnow(st *rewrite.Statement) bool {
	call := st.Kind == rewrite.KindCall || st.Kind == rewrite.KindDo
	if call && e.cfg.Call == CallGuard && e.cfg.Opaque == OpaqueAllow && e.token.guess.absent() {
		return true
	}
	return (call || e.unguardable(st)) && e.readOnlyWithoutToken(st)
}

// functionCallWithoutToken refuses a call outside SQL: no guard can run in its transaction. It may pause the client.
func (e *Engine) functionCallWithoutToken() (refuse bool) {
	if !e.watched() {
		return false
	}
	if !e.token.sure && e.tx.state == wire.TxIdle && e.askFirst() {
		return false
	}
	return true
}
