package relay

import (
	"slices"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// DDL that a session sends, from its sending to the end of its transaction.

// catalogChanges: DDL was sent. What is known of columns may hold no more, for this session to the end of its transaction,
// and for others too if it is about a table of a fence, or tells nobody what about: they may be waiting for its lock.
func (e *Engine) catalogChanges(p *rewrite.Plan) {
	for i := range p.Statements {
		e.ownViews = e.ownViews || p.Statements[i].Catalog == rewrite.CatalogOwn
	}
	if p.Catalog <= rewrite.CatalogOwn {
		return
	}
	e.ddl, e.ddlUntil, e.ddlChained = max(e.ddl, p.Catalog), e.segment+1, 0
	e.ddlInDoubt = e.ddlInDoubt || inDoubt(p)
	e.ddlLeads = e.ddlLeads || leads(p)
	if e.start.Judge != nil {
		e.start.Judge.Changed(p.Catalog, e.ddlInDoubt)
	}
}

func inDoubt(p *rewrite.Plan) bool {
	return p.Catalog == rewrite.CatalogColumns && (!p.Fences.Empty() || p.Effect >= rewrite.EffectOpaque)
}

// leads reports whether there may be a new way to a fence.
func leads(p *rewrite.Plan) bool {
	return slices.ContainsFunc(p.Statements, func(st rewrite.Statement) bool { return st.NewWays })
}

// ownWays: the session may have a way to a fence that nobody else sees: a temporary view, or what its own transaction has made.
// If it has a token it must be a good one for whatever it writes.
func (e *Engine) ownWays() bool {
	return (e.ddlLeads || e.ownViews) && e.enforcing() && e.token.maybe()
}

// makesWays reports whether a string of several statements may make such a way and take it.
func (e *Engine) makesWays(p *rewrite.Plan) bool {
	return p.Catalog != rewrite.CatalogSame && len(p.Statements) > 1 && e.enforcing() && e.token.maybe()
}

// ddlBehind calls f for the plans with DDL that EXECUTE may run, or an EXECUTE behind it. A message has prepared them: SQL's
// PREPARE takes none.
func (e *Engine) ddlBehind(st *rewrite.Statement, seen *[]*named, f func(*rewrite.Plan)) {
	n := e.namedBy(st)
	if n == nil || slices.Contains(*seen, n) || len(*seen) == maxBehind { // so many are refused
		return
	}
	*seen = append(*seen, n)
	v := n.possible(e.segment)
	v.each(func(p *rewrite.Plan) {
		if p.Catalog != rewrite.CatalogSame {
			f(p)
		}
		e.eachDDLBehind(p, seen, f)
	})
}

func (e *Engine) eachDDLBehind(p *rewrite.Plan, seen *[]*named, f func(*rewrite.Plan)) {
	for i := range p.Statements {
		if st := &p.Statements[i]; st.Kind == rewrite.KindExecute || st.Kind == rewrite.KindFetch {
			e.ddlBehind(st, seen, f)
		}
	}
}

// changeOf is what a text changes of the catalog, also by what it executes.
func (e *Engine) changeOf(p *rewrite.Plan) (c rewrite.CatalogChange, doubtful bool) {
	c, doubtful = p.Catalog, inDoubt(p)
	var seen []*named
	e.eachDDLBehind(p, &seen, func(inner *rewrite.Plan) { c, doubtful = max(c, inner.Catalog), doubtful || inDoubt(inner) })
	return c, doubtful
}

// catalogChanged: the transaction with the DDL has ended.
func (e *Engine) catalogChanged() {
	if e.ddl == rewrite.CatalogSame {
		return
	}
	c := e.ddl
	e.lookDue = e.lookDue || e.ddlLeads && e.enforcing()
	e.ddl, e.ddlInDoubt, e.ddlLeads, e.ddlChained = rewrite.CatalogSame, false, false, 0
	if e.start.Judge != nil {
		e.start.Judge.Changed(c, false)
	}
}

// lookFirst: what is sent behind the transaction of DDL, before that is answered, could take the new way to a fence before
// anybody knows of it.
func (e *Engine) lookFirst() bool {
	return e.syncs > 0 && !e.copyIn && e.enforcing() && e.start.Judge != nil && (e.lookDue || e.ddlLeads && e.segment >= e.ddlUntil)
}

// holdReady holds back the ReadyForQuery behind DDL until the catalog was looked at, so that a new way to a fence is guarded, in
// all sessions, from the moment on that anybody can know of it.
func (e *Engine) holdReady(out *Output) bool {
	if !e.lookDue || e.syncs > 0 {
		return false
	}
	e.lookDue = false
	if e.start.Judge == nil || e.start.Judge.Settled() {
		return false
	}
	e.pause = pauseLook // a message that waited for the reply is looked at again behind it
	out.Effect, out.Announce, out.Session = EffectAnnounce, nil, e.session
	return true
}

// looked: the catalog was looked at, or there is none to be had.
func (e *Engine) looked(out *Output) {
	e.smem = nil // FromServer's bytes may still be on their way out
	if e.fatal || e.ending {
		return
	}
	out.ToClient.add(wire.AppendReadyForQuery(nil, e.tx.state))
	e.resume(out)
}

// noteChain: what was sent may have ended the transaction with the DDL and begun another one.
func (e *Engine) noteChain(segment uint64) {
	if e.chainSent && e.ddl != rewrite.CatalogSame {
		e.ddlChained = segment
	}
	e.chainSent = false
}

// chainEnded: all that was sent up to a COMMIT AND CHAIN is answered. In a failed transaction it was skipped.
func (e *Engine) chainEnded(failed bool) {
	if failed {
		e.ddlChained = 0
		return
	}
	e.catalogChanged()
}

// catalogUndone: the transaction with the DDL has failed and can only be rolled back, whenever that is.
func (e *Engine) catalogUndone() {
	if e.ddlInDoubt && e.start.Judge != nil {
		e.ddlInDoubt = false
		e.start.Judge.Changed(e.ddl, false)
	}
}

var refuseUnsettledColumns = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "the columns of the table cannot be told in a transaction that has changed some",
	Hint:    "Name the columns: INSERT INTO table (a, b) ...",
}, by: ByProxy}

var refusePreparedColumns = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "cannot PREPARE a transaction that may have changed the columns of a fenced table",
	Detail:  "Nobody could tell when its changes come: INSERT without a list of columns would write wrong ones then.",
	Hint:    "COMMIT it.",
}, by: ByProxy}

var refuseChangedColumns = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "the columns of the table may have changed since the statement was prepared",
	Hint:    "Prepare it again, or name the columns: INSERT INTO table (a, b) ...",
}, by: ByProxy}
