package relay

import (
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// demand is what has to be checked before a statement runs.
type demand struct {
	fences rewrite.FenceSet // the token of each of these
	// session: every token that the session has, because the statement may write anything.
	session bool
	// readOnly: if the session has no token, its transaction becomes read-only.
	readOnly bool
	// someToken: the session must have a token.
	someToken bool
	// rows: of these only what the session has with a name. The statement checks rows by itself, but may make new ones.
	rows  rewrite.FenceSet
	shape uint64 // of the statement's text
}

func (d *demand) none() bool {
	return !d.session && !d.readOnly && !d.someToken && d.fences.Empty() && d.rows.Empty()
}

func (e *Engine) demandOfVerdict(v verdict) demand {
	var d demand
	e.addPlan(&d, v.plan)
	for _, p := range v.more {
		e.addPlan(&d, p)
	}
	return d
}

func (e *Engine) addPlan(d *demand, p *rewrite.Plan) {
	if p == nil {
		return
	}
	for i := range p.Statements {
		e.addStatement(d, &p.Statements[i])
	}
}

func (e *Engine) addStatement(d *demand, st *rewrite.Statement) {
	if d.shape == 0 {
		d.shape = st.Shape
	}
	e.addTokenless(d, st)
	switch st.Kind {
	case rewrite.KindNoBlock, rewrite.KindPrepare:
		return
	case rewrite.KindExecute:
		e.executed(st, func(inner *rewrite.Statement) { e.addStatement(d, inner) })
	case rewrite.KindFetch:
		if e.doubt.cursors {
			d.session = d.session || e.opaqueGuarded(st)
			e.addTokenless(d, &opaquePlan.Statements[0])
		}
		e.fetched(st, func(inner *rewrite.Statement) { e.addStatement(d, inner) })
	}
	switch st.Effect {
	case rewrite.EffectUnknown:
		d.fences = e.analyzer.All()
	case rewrite.EffectOpaque:
		d.session = d.session || e.opaqueGuarded(st)
		fallthrough
	case rewrite.EffectWrite:
		if st.Kind == rewrite.KindCall && e.cfg.Call == CallAllow { // it may commit inside, and the text of a CALL names no tables
			return
		}
		if st.Catalog == rewrite.CatalogSame && e.ownWays() {
			d.session = true
		}
		if !st.Fences.Empty() {
			if d.fences.Empty() {
				d.fences = st.Fences // shared with the plan, immutable
			} else {
				d.fences = d.fences.Union(st.Fences)
			}
		}
		if !st.NewRows.Empty() {
			d.rows = d.rows.Union(st.NewRows)
		}
	}
}

// executed calls f for every statement that an EXECUTE may run. The protocol prepares any statement, also EXECUTE (which
// may name itself) and PREPARE.
func (e *Engine) executed(st *rewrite.Statement, f func(*rewrite.Statement)) {
	v := e.possibleStatement([]byte(st.Name))
	v.each(func(p *rewrite.Plan) {
		for i := range p.Statements {
			followed(&p.Statements[i], f)
		}
	})
}

// followed calls f for a statement that another one runs, or for one that may do anything.
func followed(st *rewrite.Statement, f func(*rewrite.Statement)) {
	switch st.Kind {
	case rewrite.KindOther, rewrite.KindEmpty, rewrite.KindSet, rewrite.KindCopyOut, rewrite.KindBegin, rewrite.KindCommit,
		rewrite.KindCommitChain, rewrite.KindRollback, rewrite.KindRollbackChain, rewrite.KindSavepoint, rewrite.KindRollbackTo,
		rewrite.KindRelease:
		f(st)
	default: // EXECUTE, FETCH, PREPARE, ...: of itself perhaps
		f(&unknownStatement)
	}
}

// fetched calls f for every statement that a FETCH or MOVE may run. It takes any portal, also one that Bind made, and runs
// an UPDATE ... RETURNING to its end (portalcmds.c PerformPortalFetch).
func (e *Engine) fetched(st *rewrite.Statement, f func(*rewrite.Statement)) {
	p := e.names.portal([]byte(st.Name))
	if p == nil || st.Name == "" {
		return
	}
	v := p.possible(e.segment)
	v.each(func(plan *rewrite.Plan) {
		for i := range plan.Statements {
			if plan.Statements[i].Kind == rewrite.KindExecute {
				f(&plan.Statements[i]) // which is not followed into another EXECUTE, nor into a FETCH
				continue
			}
			followed(&plan.Statements[i], f)
		}
	})
}

// anythingPlan stands for more definitions than are told apart.
var anythingPlan = &rewrite.Plan{Statements: []rewrite.Statement{unknownStatement}, Effect: rewrite.EffectUnknown}

var unknownStatement = rewrite.Statement{Effect: rewrite.EffectUnknown, MayChangeToken: true, ChangesLexing: true, Verb: "EXECUTE"}

// opaqueGuarded reports whether the policy puts a guard of the session's fences in front of an opaque statement. In doubt
// it does, and the database finds out whether the session has a token.
func (e *Engine) opaqueGuarded(st *rewrite.Statement) bool {
	if (st.Kind == rewrite.KindCall || st.Kind == rewrite.KindDo) && e.cfg.Call == CallAllow {
		return false
	}
	return e.cfg.Opaque == OpaqueReject || e.token.maybe()
}

// guardRun is a guard that was sent. Its success makes it held if nothing has happened to the transaction or the token
// since it was sent.
type guardRun struct {
	demand demand
	block  bool
	epoch  uint64
	serial uint64
}

// unheld takes from d what is held already.
func (e *Engine) unheld(d *demand) {
	h := e.heldNow()
	if h == nil || d.none() {
		return
	}
	wanted := *d
	if d.session && h.session {
		d.session = false
	}
	if d.readOnly && h.readOnly {
		d.readOnly = false
	}
	for i := range e.cfg.Fences {
		if d.fences.Has(i) && !h.fences.Has(i) || d.rows.Has(i) && !h.fences.Has(i) && !h.rows.Has(i) {
			return
		}
	}
	d.fences, d.rows = rewrite.FenceSet{}, rewrite.FenceSet{}
	if d.none() {
		e.rec.Guard(GuardSkipped)
		e.decide(VerdictHeld, &wanted)
	}
}

// guardExecute puts the guards that d demands in front of the current Execute.
//
// This is the right place: every writing statement takes its snapshot at Execute, while a SELECT takes it at Bind
// (postgres.c exec_bind_message, pquery.c PortalStart), so the guard's reading step is bound only after its locking step
// was executed. Portals are named and closed, so that the client's unnamed portal and statement survive.
func (e *Engine) guardExecute(d *demand) {
	e.unnamed(d)
	e.unheld(d)
	if e.readOnlySent() {
		d.readOnly = false
	}
	if d.none() {
		return
	}
	e.tx.touchedNow = true
	e.guardSessionSlowly(d)
	if d.fences.Empty() && d.rows.Empty() {
		return
	}
	if f, t, ok := e.fastFence(d.fences, d.rows); ok {
		e.guardFast(f, t, demand{fences: d.fences, rows: d.rows, shape: d.shape})
		return
	}
	e.eachGuard(d, func(pattern int, only demand) {
		if pattern < 0 {
			e.guardSlowly(reservedGuard, only, GuardSlow)
		} else {
			e.guardPattern(pattern, only)
		}
	})
}

// fastFence is the single fence of both sets if its mark is known and equals the session's token, as far as the engine
// knows.
func (e *Engine) fastFence(fences, rows rewrite.FenceSet) (fence int, t tokens.Token, ok bool) {
	fence = -1
	for i := range e.cfg.Fences {
		if fences.Has(i) || rows.Has(i) {
			if fence >= 0 {
				return 0, t, false
			}
			fence = i
		}
	}
	if fence < 0 || e.marks[fence].Name == "" {
		return 0, t, false
	}
	t, ok = e.guardedToken(fence, !fences.Has(fence))
	return fence, t, ok && t == e.marks[fence].Token
}

func (e *Engine) newRun(d demand) *guardRun {
	g := e.runs.guard()
	*g = guardRun{demand: d, block: e.tx.block, epoch: e.tx.epoch, serial: e.token.serial}
	return g
}

func (e *Engine) guardFast(fence int, t tokens.Token, d demand) {
	e.rec.Guard(GuardFast)
	f := e.fastGuard(fence, t)
	e.prepareReserved(f.lock)
	e.prepareReserved(f.read)
	e.act.before = append(e.act.before, f.message)
	e.pushInjected(forLock, nil)
	e.pushInjected(forGuard, e.newRun(d))
}

func (e *Engine) guardSlowly(s reserved, d demand, form GuardForm) {
	e.rec.Guard(form)
	e.prepareReserved(s)
	portal := e.reserved.portal()
	at := len(e.cmem)
	if s == reservedSession || s == reservedReadOnly {
		e.cmem = wire.AppendBind(e.cmem, portal, e.reserved.name(s), []byte(e.cfg.Bare), boolText(e.tokenlessPasses(&d)))
	} else {
		e.cmem = wire.AppendBind(e.cmem, portal, e.reserved.name(s), e.fenceArray(d.fences), []byte(e.cfg.Bare))
	}
	e.cmem = wire.AppendExecute(e.cmem, portal)
	e.cmem = wire.AppendClose(e.cmem, wire.TargetPortal, portal)
	e.act.before = append(e.act.before, e.cmem[at:])
	e.pushInjected(forGuard, e.newRun(d))
}

// tokenlessPasses reports whether a session guard passes that finds no token.
func (e *Engine) tokenlessPasses(d *demand) bool {
	return !d.someToken && (!d.session || e.cfg.Opaque == OpaqueAllow)
}

func boolText(b bool) []byte {
	if b {
		return []byte("t")
	}
	return []byte("f")
}

// fenceArray is the text form of a text[]. Names hold no quote and no backslash (tokens.ValidName).
func (e *Engine) fenceArray(s rewrite.FenceSet) []byte {
	b := []byte{'{'}
	for i, name := range e.cfg.Fences {
		if s.Has(i) {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(append(append(b, '"'), name...), '"')
		}
	}
	return append(b, '}')
}

// pushInjected pushes the slots of Bind, Execute and Close.
func (e *Engine) pushInjected(p purpose, g *guardRun) {
	e.slots.push().become(slotBind, injected, forNothing)
	x := e.slots.push()
	x.become(slotExecute, injected, p)
	x.guard = g
	e.slots.push().become(slotClose, injected, forNothing)
}

func (s *slot) become(k slotKind, o origin, p purpose) { s.kind, s.origin, s.purpose = k, o, p }

// guardPassed: the server has run a guard to its end.
func (e *Engine) guardPassed(g *guardRun) {
	if g != nil {
		e.decide(VerdictGuarded, &g.demand)
	}
	e.behindGuard = false // if this was the guard in front of a Query, the Query runs
	if g == nil || !g.block || !e.tx.block || g.epoch != e.tx.epoch || g.serial != e.token.serial {
		return
	}
	h := &e.tx.held
	if h.epoch != g.epoch || h.serial != g.serial {
		*h = heldGuards{epoch: g.epoch, serial: g.serial}
	}
	h.session = h.session || g.demand.session
	h.readOnly = h.readOnly || g.demand.readOnly
	h.rows = h.rows.Union(g.demand.rows)
	if h.fences.Empty() {
		h.fences = g.demand.fences
	} else if !g.demand.fences.Empty() {
		h.fences = h.fences.Union(g.demand.fences)
	}
}

// runPool keeps guardRuns and queryRuns for reuse, so that a guarded statement costs no allocation.
type runPool struct {
	guards  []*guardRun
	queries []*queryRun
}

const maxPooled = 64

func (p *runPool) guard() *guardRun {
	if k := len(p.guards); k > 0 {
		g := p.guards[k-1]
		p.guards = p.guards[:k-1]
		return g
	}
	return &guardRun{}
}

func (p *runPool) putGuard(g *guardRun) {
	if len(p.guards) < maxPooled {
		*g = guardRun{}
		p.guards = append(p.guards, g)
	}
}

func (p *runPool) query() *queryRun {
	if k := len(p.queries); k > 0 {
		q := p.queries[k-1]
		p.queries = p.queries[:k-1]
		return q
	}
	return &queryRun{}
}

func (p *runPool) putQuery(q *queryRun) {
	if len(p.queries) < maxPooled && cap(q.steps) <= maxPooled {
		q.reset()
		p.queries = append(p.queries, q)
	}
}
