package relay

import (
	"context"

	"github.com/fenceproxy/fenceproxy/rewrite"
)

// Judges gives each session the one that tells by which analyzer its texts are judged.
type Judges interface {
	// Session is called once for each session, before anybody has logged in: it must not do anything yet.
	Session(database string) Judge
}

// Judge is what a session has of what is known of its database. Enter, Analyzer and Changed are called by the engine and
// must not wait; Settle is called in a goroutine of its own. Leave may be called while they are.
type Judge interface {
	// Enter: the session is logged in.
	Enter()
	// Settled: Settle has nothing to wait for.
	Settled() bool
	// Settle waits until the database is known, as it is after the last call of Changed, but not for long.
	Settle(ctx context.Context)
	// Analyzer is that of now, of the fences of Config and in their order. Another one may be returned any time.
	Analyzer() *rewrite.Analyzer
	// Changed: the session may have changed what is known, or has just ended a transaction that may have. inDoubt says that
	// others cannot rely on columns from now on, until another call says that they can.
	Changed(c rewrite.CatalogChange, inDoubt bool)
	// Leave: nothing of the session is left at the server, which may commit after the client has gone; also if it never
	// entered.
	Leave()
}

// enterDatabase: the session is logged in. It reports whether there is something to wait for.
func (e *Engine) enterDatabase() (wait bool) {
	if e.start.Judge == nil {
		return false
	}
	e.start.Judge.Enter()
	e.lookUp()
	return !e.start.Judge.Settled()
}

// lookUp takes the analyzer of now. What the session has prepared under another one is judged again, so that a statement
// that was prepared before anybody knew of a view or a function does not stay without a guard.
func (e *Engine) lookUp() {
	if e.start.Judge == nil {
		return
	}
	if a := e.start.Judge.Analyzer(); a != e.analyzer {
		e.analyzer = a
		e.names.again(a)
	}
}

func (n *names) again(a *rewrite.Analyzer) {
	n.unnamedS.again(a)
	n.unnamedP.again(a)
	for _, s := range n.statements {
		s.again(a)
	}
	for _, p := range n.portals {
		p.again(a)
	}
}

func (n *named) again(a *rewrite.Analyzer) {
	n.current.again(a)
	for i := range n.pending.all() {
		n.pending.all()[i].verdict.again(a)
	}
}

// again: v.more may be shared with the definition it was copied from.
func (v *verdict) again(a *rewrite.Analyzer) {
	if v.plan == nil {
		return
	}
	v.plan = a.Again(v.plan)
	if len(v.more) == 0 {
		return
	}
	more := make([]*rewrite.Plan, len(v.more))
	for i, p := range v.more {
		more[i] = a.Again(p)
	}
	v.more = more
}
