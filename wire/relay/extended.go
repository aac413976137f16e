package relay

import (
	"bytes"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/wire"
)

// Messages of the extended protocol that a client sends: what each may run, and what is done about it.

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
