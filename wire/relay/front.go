package relay

import (
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/wire"
)

// A guard in front of a Query: its two steps are sent as messages of the extended protocol, without a Sync, and the
// client's Query behind them as it is. It runs in the transaction that the guard's Bind has begun, and ends it as it
// would have ended its own (postgres.c start_xact_command, exec_simple_query). That is cheaper than a string with
// EXECUTEs in front, and the text stays the client's: in the server's log, in pg_stat_activity, in error positions.
//
// If the guard fails, the server skips everything up to a Sync, the Query too, and owes no ReadyForQuery for it. So the
// engine sends a Sync then, whose ReadyForQuery is the Query's. Until it knows, it sends nothing else: what the client
// has sent behind the Query waits, for it would be skipped too.

// afterPipeline is the first major version whose Query does not end a transaction that messages of the extended protocol
// have begun: it begins an implicit block behind the first Execute, which lasts to the next Sync (start_xact_command).
const afterPipeline = 18

// maybeInFront puts the guard of the current Query in front of it, if that can be done, and sends both.
func (e *Engine) maybeInFront(a rewrite.Analysis, sql []byte) bool {
	p := a.Plan
	st := lone(p)
	if st == nil || st.Kind != rewrite.KindOther || st.Effect != rewrite.EffectWrite || st.MayChangeToken || st.ChangesLexing ||
		e.serverMajor == 0 || e.serverMajor >= afterPipeline || e.cfg.Walsender {
		return false
	}
	// Nothing may be under way: not a message that may fail and have the guard skipped, nor one that may change the
	// transaction.
	if e.slots.front() != nil || e.open || e.syncs > 0 || e.tx.changing > 0 || e.tx.aborted || e.copyIn || e.heldNow() != nil {
		return false
	}
	var d demand
	e.addStatement(&d, st)
	e.unnamed(&d)
	if d.session || d.readOnly || d.someToken || d.fences.Empty() && d.rows.Empty() {
		return false
	}
	fence, t, ok := e.fastFence(d.fences, d.rows)
	if !ok {
		return false
	}
	e.guardInFront(e.fastGuard(fence, t), d)
	e.countStatements(p)
	e.sentStatement(st)
	s := e.boundary(slotQuery)
	s.behindGuard = true
	if e.splices(p) {
		s.spliced = e.spliceMessage(wire.FrontendQuery, a, nil, sql, []byte{0})
		s.about = st.Shape
	}
	e.behindGuard = true
	return true
}

// guardInFront sends the guard by the unnamed portal, which the Query drops in any case, and without a Close. The unnamed
// statement, which the Query drops too (exec_simple_query), must be gone also if the Query is skipped.
func (e *Engine) guardInFront(f *fastGuard, d demand) {
	e.rec.Guard(GuardFast)
	if s := &e.names.unnamedS; !s.current.empty() {
		e.act.before = append(e.act.before, closeUnnamed)
		x := e.slots.push()
		x.become(slotClose, injected, forNothing)
		x.statement = s
	}
	e.prepareReserved(f.lock)
	e.prepareReserved(f.read)
	e.act.before = append(e.act.before, f.unnamed)
	for _, step := range [...]purpose{forLock, forGuard} {
		e.slots.push().become(slotBind, injected, forNothing)
		x := e.slots.push()
		x.become(slotExecute, injected, step)
		if step == forGuard {
			x.guard = e.newRun(d)
		}
	}
}

var (
	syncMessage  = wire.AppendSync(nil)
	closeUnnamed = wire.AppendClose(nil, wire.TargetStatement, "")
)

// guardInFrontFailed: the server has skipped the Query whose slot is at the head.
func (e *Engine) guardInFrontFailed(query *slot, out *Output) {
	query.kind, query.behindGuard = slotSync, false
	e.behindGuard = false
	out.ToServer.add(syncMessage)
}

// holdBehindGuard leaves the message that begins here unread until the Query is answered. The end of the session does not
// wait.
func (e *Engine) holdBehindGuard(w *window) bool {
	typ := w.in[w.pos]
	if len(e.client.held) > 0 {
		typ = e.client.held[0]
	}
	if typ == wire.FrontendTerminate {
		return false
	}
	e.pause = pauseQuiet
	return true
}
