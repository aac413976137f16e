package relay

import (
	"github.com/fenceproxy/fenceproxy/rewrite"
)

// sent notes what an Execute may do, and leaves in its slot what applies on the reply.
func (e *Engine) sent(s *slot, v verdict) {
	e.lexing.sent = false
	v.each(func(plan *rewrite.Plan) {
		for i := range plan.Statements {
			if e.sentStatement(&plan.Statements[i]) {
				s.changesTx = true
			}
		}
	})
	e.noteLexing(e.segment + 1)
	e.noteChain(e.segment + 1)
	if s.changesTx {
		e.tx.changing++
	}
	if len(v.more) > 0 {
		// Several definitions are possible: whatever their effects are, nothing may be relied on.
		e.doubt.statements = true
		e.token.disturb()
		v.each(e.maybePrepared)
		return
	}
	s.plan, s.lost = v.plan, e.reserved.lost
	if st := lone(v.plan); st != nil {
		switch st.Kind {
		case rewrite.KindSetToken:
			if v.hasToken {
				s.token = &pendingToken{e.token.assign(present(v.token), st.Token.Local)}
			} else {
				e.token.disturb()
			}
		case rewrite.KindPrepare:
			s.statement = e.prepared(v.plan, st)
		}
	}
}

func (e *Engine) countStatements(p *rewrite.Plan) {
	if p.Catalog != rewrite.CatalogSame {
		e.catalogChanges(p)
	}
	var seen []*named
	e.eachDDLBehind(p, &seen, e.catalogChanges)
	for i := range p.Statements {
		st := &p.Statements[i]
		e.rec.Statement(st.Verb, st.Effect, !st.Fences.Empty() || !st.RowFences.Empty() || !st.NewRows.Empty())
	}
}

// maybePrepared: if the plan is a PREPARE, its name may stand for what it prepares from now on, beside what it stood for.
func (e *Engine) maybePrepared(p *rewrite.Plan) {
	if st := lone(p); st != nil && st.Kind == rewrite.KindPrepare {
		e.names.makeStatement([]byte(st.Name)).current.add(verdict{plan: preparedPlan(p, st)})
	}
}

// prepared notes that SQL's PREPARE was sent.
func (e *Engine) prepared(p *rewrite.Plan, st *rewrite.Statement) *statement {
	s := e.names.makeStatement([]byte(st.Name))
	s.define(verdict{plan: preparedPlan(p, st)}, e.segment)
	return s
}

// preparedPlan is the plan of what PREPARE, a statement of p, prepared.
func preparedPlan(p *rewrite.Plan, st *rewrite.Statement) *rewrite.Plan {
	inner := rewrite.Statement{
		PastReadOnly: st.PastReadOnly, MayLiftReadOnly: st.MayLiftReadOnly, Effect: st.Effect, Fences: st.Fences, Uses: st.Uses, RowFences: st.RowFences, NewRows: st.NewRows, MayChangeToken: st.MayChangeToken, ChangesLexing: st.ChangesLexing, Verb: "EXECUTE",
	}
	q := &rewrite.Plan{
		Statements: []rewrite.Statement{inner},
		Fences:     st.Fences,
		Effect:     st.Effect,
		Plain: !st.MayChangeToken && !st.MayLiftReadOnly && !st.ChangesLexing && st.Fences.Empty() && st.RowFences.Empty() && st.NewRows.Empty() &&
			st.Effect <= rewrite.EffectWrite,
	}
	q.RestOn(p)
	return q
}

// sentStatement notes what a statement may do from the moment that it is sent, and reports whether it may change the
// transaction.
func (e *Engine) sentStatement(st *rewrite.Statement) (changesTx bool) {
	if st.Effect >= rewrite.EffectLock {
		e.tx.touchedNow = true
	}
	e.tx.madeReadOnly = e.tx.madeReadOnly || e.readOnlyWithoutToken(st)
	if st.MayChangeToken {
		e.token.disturb()
	}
	if e.changesLexing(st) {
		e.lexing.sent = true
	}
	e.savepoints = e.savepoints || st.Effect == rewrite.EffectUnknown
	switch st.Effect {
	case rewrite.EffectOpaque, rewrite.EffectUnknown:
		// It may even prepare something else under the names of the guards, having read them in pg_prepared_statements.
		e.reserved.lose()
		e.token.disturb()
		e.doubt.statements = true
		e.doubt.cursors = true
	}
	switch {
	case st.Kind == rewrite.KindCommitChain || st.Kind == rewrite.KindRollbackChain:
		e.chainSent = true
	case st.Catalog != rewrite.CatalogSame || st.Effect == rewrite.EffectUnknown:
		e.chainSent = false
	}
	switch st.Kind {
	case rewrite.KindSavepoint:
		e.savepoints = true
	case rewrite.KindCommit, rewrite.KindCommitChain, rewrite.KindPrepareTx:
		e.token.ending()
	case rewrite.KindRollback, rewrite.KindRollbackChain:
		e.token.ending()
		e.token.rolledBack()
	case rewrite.KindRollbackTo:
		e.token.rolledBackTo()
	case rewrite.KindRelease:
		if e.cfg.Tokenless != TokenlessReadWrite {
			e.tx.released = e.tx.released || e.tx.madeReadOnly
			e.tx.disturb() // ends read-only that began behind the savepoint (xact.c CommitSubTransaction)
		}
	case rewrite.KindDiscard:
		e.reserved.lose()
		e.token.disturb()
	case rewrite.KindResetToken:
		e.token.disturb()
	case rewrite.KindDeallocate:
		if st.Name == "" {
			e.reserved.lose()
		}
	case rewrite.KindExecute:
		e.executed(st, func(inner *rewrite.Statement) { changesTx = e.sentStatement(inner) || changesTx })
	case rewrite.KindDeclare:
		if st.MayChangeToken {
			e.doubt.cursors = true // its query runs at FETCH
		}
	case rewrite.KindFetch:
		if e.doubt.cursors {
			changesTx = e.sentStatement(&opaquePlan.Statements[0])
		}
		e.fetched(st, func(inner *rewrite.Statement) { changesTx = e.sentStatement(inner) || changesTx })
	}
	if changesTransaction(st) {
		e.tx.disturb()
		return true
	}
	return changesTx
}

// changesTransaction: begins or ends a transaction, or releases locks of one.
func changesTransaction(st *rewrite.Statement) bool {
	switch st.Kind {
	case rewrite.KindBegin, rewrite.KindCommit, rewrite.KindCommitChain, rewrite.KindRollback, rewrite.KindRollbackChain,
		rewrite.KindRollbackTo, rewrite.KindPrepareTx, rewrite.KindCall, rewrite.KindDo, rewrite.KindNoBlock:
		return true
	}
	return st.Effect == rewrite.EffectUnknown
}
