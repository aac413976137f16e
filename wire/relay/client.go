package relay

import (
	"bytes"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/wire"
)

// wholeBind is the size up to which a Bind is looked at whole, for a token among its parameters. Larger ones stream.
const wholeBind = 16 << 10

// smallMessage is PQ_SMALL_MESSAGE_LIMIT: PostgreSQL ends a session that sends a longer Execute or Close (postgres.c
// SocketBackend).
const smallMessage = 10000 + 1

func (e *Engine) clientLook(typ byte, size int) look {
	if e.phase != phaseReady || e.skipping {
		return lookType
	}
	switch typ {
	case wire.FrontendQuery, wire.FrontendParse, wire.FrontendExecute, wire.FrontendClose, wire.FrontendDescribe,
		wire.FrontendFunctionCall:
		return lookWhole
	case wire.FrontendBind:
		if size <= wholeBind {
			return lookWhole
		}
		return lookNames
	}
	return lookType
}

func (e *Engine) sizeAllowed(typ byte, size int) bool {
	if e.phase != phaseReady || e.skipping {
		return true
	}
	switch typ {
	case wire.FrontendQuery, wire.FrontendParse, wire.FrontendFunctionCall:
		return size <= e.cfg.maxStatement()+wire.HeaderLen
	case wire.FrontendExecute, wire.FrontendClose, wire.FrontendDescribe, wire.FrontendSync, wire.FrontendFlush:
		return size <= smallMessage
	}
	return true
}

// oversized refuses a statement that is too long to be looked at, and drops it as it arrives; of other types PostgreSQL
// itself ends the session.
func (e *Engine) oversized(typ byte, size int, w *window, out *Output) error {
	switch typ {
	case wire.FrontendQuery, wire.FrontendParse, wire.FrontendFunctionCall:
	default:
		return e.refuseFrame(out)
	}
	a := &e.client
	arrived := len(a.held)
	a.held = a.held[:0]
	e.act.reset()
	if typ != wire.FrontendParse {
		e.poisonQuery(refuseTooLong(e.cfg.maxStatement()))
	} else {
		e.poisonExtended(refuseTooLong(e.cfg.maxStatement()))
	}
	w.flush(&out.ToServer)
	e.emit(nil, out)
	a.rest, a.drop = size-arrived, true
	return nil
}

// clientType sees messages of which the type says enough.
func (e *Engine) clientType(typ byte) {
	e.act.reset()
	if e.phase != phaseReady {
		if typ != wire.FrontendPassword && typ != wire.FrontendTerminate {
			e.act.pause = pauseLogin
		}
		return
	}
	if e.copying.resync == resyncWanted && typ != wire.FrontendTerminate {
		e.startResync()
		return
	}
	if e.slots.n >= maxUnanswered {
		e.act.pause = pauseDepth
		return
	}
	switch typ {
	case wire.FrontendSync:
		if e.copyIn {
			e.copying.syncs++
			e.copying.amongData = e.copying.amongData || e.dataSent
			return // ignored by the server (copyfromparse.c CopyGetData)
		}
		if e.lookFirst() { // the first of two answers would pass at once, and that is the one to the DDL
			e.act.pause = pauseQuiet
			return
		}
		e.skipping = false
		e.boundary(slotSync)
		e.open = false
	case wire.FrontendTerminate:
		if e.lookFirst() { // the server would end the session, and the answer to the DDL with it
			e.act.pause = pauseQuiet
		}
	case wire.FrontendCopyData:
		e.dataSent = true
	case wire.FrontendCopyDone, wire.FrontendCopyFail:
		if e.skipping {
			return
		}
		e.copyIn = false
		if e.slots.n > 0 {
			e.slots.push().kind = slotCopyEnd
		}
	}
}

// boundary pushes the slot of a message that ReadyForQuery answers.
func (e *Engine) boundary(kind slotKind) *slot {
	e.segment++
	e.syncs++
	e.tx.boundary()
	if kind != slotSync && e.open {
		e.tx.implicit = e.segment
		e.tx.disturb()
	}
	s := e.slots.push()
	s.kind, s.segment = kind, e.segment
	return s
}

// clientMessage decides about one message. b holds all of it, or for a long Bind at least its names; size is its full
// size. The decision is in e.act.
func (e *Engine) clientMessage(typ byte, b []byte, size int) error {
	e.act.reset()
	if e.copyIn && e.copying.amongData && e.enforcing() {
		return errInCopy
	}
	if e.copying.resync == resyncWanted {
		e.startResync()
		return nil
	}
	if e.slots.n >= maxUnanswered {
		e.act.pause = pauseDepth
		return nil
	}
	if e.lookFirst() {
		e.act.pause = pauseQuiet
		return nil
	}
	e.dataSent = false
	e.lookUp()
	body := b[wire.HeaderLen:]
	var ok bool
	switch typ {
	case wire.FrontendParse:
		ok = e.clientParse(body)
		e.open = true
	case wire.FrontendBind:
		ok = e.clientBind(body, len(b) == size)
		e.open = true
	case wire.FrontendDescribe:
		var target byte
		var name []byte
		if target, name, ok = wire.DecodeDescribe(body); ok && !(e.enforcing() && e.refuseName(name)) {
			s := e.slots.push()
			s.kind, s.spliced = slotDescribe, e.ofDescribed(target, name)
		}
		e.open = true
	case wire.FrontendClose:
		ok = e.clientClose(body)
		e.open = true
	case wire.FrontendExecute:
		ok = e.clientExecute(body)
		e.open = true
	case wire.FrontendQuery:
		ok = e.clientQuery(body)
	case wire.FrontendFunctionCall:
		ok = e.clientFunctionCall(body)
	}
	if !ok {
		return e.malformed(typ, len(b) == size)
	}
	return nil
}

// malformed deals with a message whose body is not in order: PostgreSQL answers it with an error and goes on.
func (e *Engine) malformed(typ byte, whole bool) error {
	switch {
	case !whole:
		return errMalformed
	case !e.enforcing():
		if typ == wire.FrontendQuery || typ == wire.FrontendFunctionCall {
			e.boundary(slotKind(typ))
		} else {
			e.slots.push().kind = slotKind(typ)
		}
	case typ == wire.FrontendQuery || typ == wire.FrontendFunctionCall:
		e.poisonQuery(refuseMalformed)
	default:
		e.poisonExtended(refuseMalformed)
	}
	return nil
}

func (e *Engine) clientParse(body []byte) bool {
	m, ok := wire.DecodeParse(body)
	if !ok {
		return false
	}
	if e.enforcing() && e.refuseName(m.Name) {
		return true
	}
	a := e.analyze(m.SQL)
	plan := a.Plan
	if plan.Effect == rewrite.EffectUnknown && e.lexing.until > 0 && e.syncs > 0 && !e.copyIn && e.enforcing() {
		e.act.pause = pauseQuiet // it may be readable once the settings are known
		return true
	}
	if e.mustAsk(plan) {
		return true
	}
	if r := e.passingRefusal(plan); r != nil {
		e.about = shapeOf(plan)
		e.poisonExtended(*r)
		return true
	}
	v := verdict{plan: plan}
	if e.splices(plan) {
		if r := e.foreignSplice(plan); r != nil {
			e.about = shapeOf(plan)
			e.poisonExtended(*r)
			return true
		}
		if e.act.pause != pauseNone {
			return true
		}
		at := len(m.Name) + 1
		v.spliced = e.spliceMessage(wire.FrontendParse, a, body[:at], m.SQL, body[at+len(m.SQL):])
	}
	s := e.names.makeStatement(m.Name)
	s.define(v, e.segment)
	slot := e.slots.push()
	slot.kind, slot.statement, slot.spliced = slotParse, s, v.spliced
	return true
}

func (e *Engine) clientBind(body []byte, whole bool) bool {
	portalName, rest, ok := bytes.Cut(body, []byte{0})
	if !ok {
		return false
	}
	name, _, ok := bytes.Cut(rest, []byte{0})
	if !ok {
		return false
	}
	if e.enforcing() && (e.refuseName(portalName) || e.refuseName(name)) {
		return true
	}
	v := e.possibleStatement(name)
	if v.plan != nil && !v.plan.Plain && (e.mustAsk(v.plan) || e.commitWaits(v.plan)) {
		return true
	}
	if st := lone(v.plan); st != nil && st.Kind == rewrite.KindSetToken && whole {
		if !bindToken(&v, st.Token, body) {
			return false
		}
	}
	e.readOnlyBeforeBind(v)
	p := e.names.makePortal(portalName)
	p.define(v, e.segment)
	slot := e.slots.push()
	slot.kind, slot.portal, slot.spliced = slotBind, p, v.spliced
	return true
}

// bindToken notes the value of fence.token that a Bind carries.
func bindToken(v *verdict, t *rewrite.Token, body []byte) bool {
	if len(v.more) > 0 {
		return true
	}
	if t.Param == 0 {
		v.token, v.hasToken = t.Value, true
		return true
	}
	m, ok := wire.DecodeBind(body)
	if !ok {
		return false
	}
	// Text and binary format of a text parameter are the same bytes (varlena.c textrecv).
	if value, _, ok := m.Param(t.Param - 1); ok {
		v.token, v.hasToken = string(value), true
	}
	return true
}

// possibleStatement is what a Bind or EXECUTE of a prepared statement may run.
func (e *Engine) possibleStatement(name []byte) verdict {
	var v verdict
	if s := e.names.statement(name); s != nil {
		v = s.possible(e.segment)
	}
	if e.doubt.statements && len(name) > 0 && (e.token.maybe() || e.cfg.Tokenless != TokenlessReadWrite) {
		v.add(verdict{plan: opaquePlan})
	}
	return v
}

// opaquePlan stands for what the engine cannot know: something that an opaque statement may have prepared or opened.
var opaquePlan = &rewrite.Plan{
	Statements: []rewrite.Statement{{Effect: rewrite.EffectOpaque, MayChangeToken: true, ChangesLexing: true, Verb: "EXECUTE"}},
	Effect:     rewrite.EffectOpaque,
}

// lone is the only statement of a plan, or nil.
func lone(p *rewrite.Plan) *rewrite.Statement {
	if p == nil || len(p.Statements) != 1 {
		return nil
	}
	return &p.Statements[0]
}

func (e *Engine) clientClose(body []byte) bool {
	target, name, ok := wire.DecodeClose(body)
	if !ok {
		return false
	}
	if e.enforcing() && e.refuseName(name) {
		return true
	}
	slot := e.slots.push()
	slot.kind = slotClose
	// The definition goes on the reply; a lookup that finds nothing has nothing to forget.
	if target == wire.TargetStatement {
		slot.statement = e.names.statement(name)
	} else {
		slot.portal = e.names.portal(name)
	}
	return true
}

func (e *Engine) clientExecute(body []byte) bool {
	name, _, ok := wire.DecodeExecute(body)
	if !ok {
		return false
	}
	if e.enforcing() && e.refuseName(name) {
		return true
	}
	p := e.names.portal(name)
	var v verdict
	if p != nil {
		v = p.possible(e.segment)
	}
	if v.empty() {
		// A portal that nobody bound: a cursor, or none.
		if e.doubt.cursors {
			v.plan = opaquePlan
		} else {
			e.slots.push().kind = slotExecute
			return true
		}
	}
	if v.plain() && !e.watched() && !e.ownWays() {
		e.countStatements(v.plan)
		e.tx.touchedNow = e.tx.touchedNow || v.plan.Effect >= rewrite.EffectLock
		e.slots.push().kind = slotExecute
		return true
	}
	return e.executeWithCare(v)
}

// executeWithCare deals with an Execute that is more than forwarded.
func (e *Engine) executeWithCare(v verdict) bool {
	e.about = shapeOf(v.plan)
	if e.cfg.Mode == ModeObserve {
		e.observeExecute(v)
	} else if e.refuseExecute(v) {
		return true
	} else if st := lone(v.plan); st != nil && st.Kind == rewrite.KindSetToken && v.hasToken {
		if r := e.presentToken(v.token, st.Token.Local); r != nil {
			e.poisonExtended(*r)
			return true
		}
		if e.act.pause != pauseNone {
			return true
		}
	}
	if e.commitWaits(v.plan) {
		return true
	}
	if e.enforcing() && !e.tx.aborted {
		d := e.demandOfVerdict(v)
		if r := e.knownStale(&d); r != nil {
			e.poisonExtended(*r)
			return true
		}
		e.guardExecute(&d)
	}
	v.each(e.countStatements)
	slot := e.slots.push()
	slot.kind, slot.spliced = slotExecute, v.spliced
	e.sent(slot, v)
	return true
}
