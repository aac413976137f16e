package relay

import (
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// queryRun follows the results of one Query through its statements.
type queryRun struct {
	plan   *rewrite.Plan
	steps  []step
	next   int             // index in steps of the result that comes next
	shifts []rewrite.Shift // where the text that the server gets is not the client's
	rows   bool            // row tokens were put in
}

// step is one result of a Query: that of a client's statement, or of a guard in front of one.
type step struct {
	statement int // index in plan.Statements
	injected  bool
	guard     *guardRun // of a guard's last result
	token     *pendingToken
	prepare   *statement // its pending definition
	lost      uint64     // reservedSet.lost once it was sent
	changesTx bool
}

func (q *queryRun) reset() {
	clear(q.steps)
	if cap(q.shifts) > maxPooled { // of a long list of rows
		q.shifts = nil
	}
	*q = queryRun{steps: q.steps[:0], shifts: q.shifts[:0]}
}

// current is the step whose result comes next, nil behind the last.
func (q *queryRun) current() *step {
	if q.next >= len(q.steps) {
		return nil
	}
	return &q.steps[q.next]
}

func (e *Engine) clientQuery(body []byte) bool {
	sql, ok := wire.DecodeQuery(body)
	if !ok {
		return false
	}
	a := e.analyze(sql)
	e.about = shapeOf(a.Plan)
	if a.Plain && !e.watched() && !e.ownWays() && !e.makesWays(a.Plan) {
		e.countStatements(a.Plan)
		e.boundary(slotQuery)
		e.tx.touchedBefore = e.tx.touchedBefore || a.Effect >= rewrite.EffectLock
		return true
	}
	if e.cfg.Mode == ModeObserve {
		e.observeQuery(a.Plan)
		e.sendQuery(a, sql)
		return true
	}
	if a.Effect == rewrite.EffectUnknown && len(e.cfg.Fences) > 0 && !e.probed(a.Plan, sql) { // a mistake is PostgreSQL's to tell
		return true
	}
	if r := e.refusalOfPlan(a.Plan); r != nil {
		e.poisonQuery(*r)
		return true
	}
	if e.mustAsk(a.Plan) || e.commitWaits(a.Plan) {
		return true
	}
	if r := e.refusalOfTokenless(a.Plan, false); r != nil {
		e.poisonQuery(*r)
		return true
	}
	if a.Spliced() {
		if r := e.foreignSplice(a.Plan); r != nil {
			e.poisonQuery(*r)
			return true
		}
		if e.act.pause != pauseNone {
			return true
		}
	}
	if r := e.presentTokens(a.Plan); r != nil {
		e.poisonQuery(*r)
		return true
	}
	if e.act.pause != pauseNone {
		return true
	}
	if st := lone(a.Plan); st != nil {
		var d demand
		e.addStatement(&d, st)
		if r := e.knownStale(&d); r != nil {
			e.poisonQuery(*r)
			return true
		}
	}
	if e.maybeInFront(a, sql) {
		return true
	}
	e.prepareAhead(a.Plan)
	e.sendQuery(a, sql)
	return true
}

// presentTokens presents what the string assigns to fence.token. Only an assignment that nothing but harmless statements
// precede is announced; a malformed one anywhere refuses the whole string.
func (e *Engine) presentTokens(p *rewrite.Plan) *refusal {
	harmless := true
	for i := range p.Statements {
		st := &p.Statements[i]
		if st.Kind == rewrite.KindSetToken && st.Token.Param == 0 {
			if harmless {
				if r := e.presentToken(st.Token.Value, st.Token.Local); r != nil || e.act.pause != pauseNone {
					return r
				}
			} else if r := e.checkToken(st.Token.Value, st.Token.Local); r != nil {
				return r
			}
			harmless = false // the raise of a second token would refuse what the first has written
			continue
		}
		if st.Effect >= rewrite.EffectLock {
			harmless = false
		}
	}
	return nil
}

// checkToken refuses a value that cannot be right.
func (e *Engine) checkToken(raw string, local bool) *refusal {
	list, err := tokens.Parse(raw)
	if err != nil {
		return refuse(tokenError(err))
	}
	if err := list.Check(e.cfg.Fences, e.cfg.Bare); err != nil {
		return refuse(err)
	}
	if e.cfg.Pooled && !local && len(list) > 0 {
		return &refusePooled
	}
	return nil
}

// sendQuery sends the string, with a guard spliced in front of each statement that needs one: a COMMIT inside the string
// releases the guards in front of it. Guards stand on the line of their statement, so that the client's line numbers
// stay right.
func (e *Engine) sendQuery(a rewrite.Analysis, sql []byte) {
	run := e.runs.query()
	run.plan, run.rows = a.Plan, e.splices(a.Plan)
	failed := e.tx.aborted && len(a.Statements) == 1 // boundary forgets it
	e.countStatements(a.Plan)
	slot := e.boundary(slotQuery)
	slot.query = run

	e.lexing.sent = false
	head := len(e.cmem)
	copied := 0 // bytes of sql that are in cmem already
	chars := 0  // and their characters, with what was put in
	begun := false
	copyTo := func(end int) {
		if !begun {
			e.cmem = append(e.cmem, wire.FrontendQuery, 0, 0, 0, 0)
			begun = true
		}
		if run.rows {
			old := len(run.shifts)
			run.shifts = a.AppendShifts(run.shifts, sql, copied, end, chars, e.charsOf)
			for _, s := range run.shifts[old:] {
				chars += s.Inserted - s.Dropped
			}
			e.cmem = a.AppendSpliced(e.cmem, sql, copied, end)
		} else {
			e.cmem = append(e.cmem, sql[copied:end]...)
		}
		chars += e.charsOf(sql[copied:end])
		copied = end
	}
	for i := range a.Statements {
		st := &a.Statements[i]
		if st.Kind == rewrite.KindEmpty {
			continue
		}
		if e.enforcing() && !failed {
			var d demand
			e.addStatement(&d, st)
			e.unnamed(&d)
			if len(a.Statements) == 1 {
				e.unheld(&d)
			}
			if !d.none() {
				e.tx.touchedNow = true
				copyTo(int(a.Starts[i]))
				n := e.spliceGuards(run, i, d)
				run.shifts = append(run.shifts, rewrite.Shift{At: chars, Inserted: n})
				chars += n
			}
		}
		e.sendStep(run, i, st)
	}
	e.segment++ // what PREPARE defines here may fail while messages behind the string are executed
	e.tx.touchedBefore = e.tx.touchedBefore || e.tx.touchedNow
	e.tx.touchedNow = false
	e.noteLexing(slot.segment)
	e.noteChain(slot.segment)
	if run.changesTx() {
		slot.changesTx = true
		e.tx.changing++
	}
	if !begun && !run.rows {
		return
	}
	copyTo(len(sql))
	e.cmem = append(e.cmem, 0)
	e.act.instead = finishMessage(e.cmem[head:])
}

func finishMessage(m []byte) []byte {
	n := len(m) - 1
	m[1], m[2], m[3], m[4] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return m
}

// charsOf counts the characters that PostgreSQL counts in its error positions.
func (e *Engine) charsOf(b []byte) int {
	n, _ := wire.Chars(b, e.encoding)
	return n
}

// spliceGuards appends the guards that d demands and returns their length, in bytes and characters alike.
func (e *Engine) spliceGuards(run *queryRun, statement int, d demand) int {
	at := len(e.cmem)
	e.spliceSessionGuard(run, statement, &d)
	if !d.fences.Empty() || !d.rows.Empty() {
		only := demand{fences: d.fences, rows: d.rows, shape: d.shape}
		switch f, t, ok := e.fastFence(d.fences, d.rows); {
		case ok && e.fastPrepared(f, t):
			e.rec.Guard(GuardFast)
			e.cmem = append(e.cmem, e.fastGuard(f, t).sql...)
			run.steps = append(run.steps, step{statement: statement, injected: true})
		case ok:
			e.rec.Guard(GuardFast)
			e.cmem = append(tokens.AppendFastGuard(e.cmem, e.marks[f], e.token.guess.raw, t, e.cfg.Bare), ';')
		default:
			e.eachGuard(&d, func(pattern int, only demand) {
				e.rec.Guard(GuardSlow)
				if pattern < 0 {
					e.cmem = append(tokens.AppendGuard(e.cmem, e.fenceNames(only.fences), e.cfg.Bare), ';')
				} else {
					e.cmem = append(tokens.AppendGuardPattern(e.cmem, e.cfg.Fences[pattern], e.cfg.Bare, only.fences.Empty()), ';')
				}
				run.steps = append(run.steps, step{statement: statement, injected: true, guard: e.newRun(only)})
			})
			return len(e.cmem) - at
		}
		run.steps = append(run.steps, step{statement: statement, injected: true, guard: e.newRun(only)})
	}
	return len(e.cmem) - at
}

// fastPrepared: the server has confirmed both statements of the fast guard.
func (e *Engine) fastPrepared(fence int, t tokens.Token) bool {
	f := e.fastGuard(fence, t)
	return e.reserved.list[f.lock].confirmed && e.reserved.list[f.read].confirmed
}

func (e *Engine) fenceNames(s rewrite.FenceSet) []string {
	var names []string
	for i, name := range e.cfg.Fences {
		if s.Has(i) {
			names = append(names, name)
		}
	}
	return names
}

// sendStep notes what a statement of a Query may do, from now on and on its result.
func (e *Engine) sendStep(run *queryRun, i int, st *rewrite.Statement) {
	s := step{statement: i}
	s.changesTx = e.sentStatement(st)
	s.lost = e.reserved.lost
	switch st.Kind {
	case rewrite.KindSetToken:
		if st.Token.Param == 0 {
			s.token = &pendingToken{e.token.assign(present(st.Token.Value), st.Token.Local)}
		} else {
			e.token.disturb()
		}
	case rewrite.KindPrepare:
		s.prepare = e.prepared(run.plan, st)
	}
	run.steps = append(run.steps, s)
}

func (run *queryRun) changesTx() bool {
	for i := range run.steps {
		if run.steps[i].changesTx {
			return true
		}
	}
	return false
}

// stepDone applies the effects of the statement whose result has come.
func (e *Engine) stepDone(run *queryRun, tag []byte) (swallow bool) {
	s := run.current()
	if s == nil {
		return false
	}
	run.next++
	if s.injected {
		e.guardPassed(s.guard)
		return true
	}
	st := &run.plan.Statements[s.statement]
	e.statementDone(st, s.lost)
	if s.token != nil {
		e.token.confirmed(s.token.serial)
	}
	if s.prepare != nil {
		s.prepare.settle(true)
		s.prepare = nil
	}
	return false
}

// endQuery: the string is over, with or without all of its results.
func (e *Engine) endQuery(run *queryRun) {
	for i := range run.steps {
		s := &run.steps[i]
		if s.prepare != nil {
			s.prepare.settle(false)
		}
		if s.guard != nil {
			e.runs.putGuard(s.guard)
		}
	}
	e.runs.putQuery(run)
}

// statementDone applies what a completed statement did to names. lost is reservedSet.lost as it was when the statement
// had been sent.
func (e *Engine) statementDone(st *rewrite.Statement, lost uint64) {
	switch st.Kind {
	case rewrite.KindDeallocate:
		if st.Name != "" {
			e.names.forget(st.Name)
			return
		}
		e.names.forgetStatements()
	case rewrite.KindDiscard:
		e.names.forgetStatements()
		e.names.forgetPortals()
		if lost == e.reserved.lost { // nothing opaque was sent since
			e.doubt = doubts{}
		}
	case rewrite.KindDeclare:
		if st.Effect >= rewrite.EffectOpaque {
			e.doubt.cursors = true
		}
	}
}
