package relay

import "github.com/fenceproxy/fenceproxy/rewrite"

// verdict is what may happen when a statement or portal is executed: one plan, or several when the engine cannot know
// which definition the server holds. The zero verdict is "does not exist as far as anybody told the engine".
type verdict struct {
	plan *rewrite.Plan
	more []*rewrite.Plan
	// token is what a portal's statement assigns to fence.token, if it is certain.
	token    string
	hasToken bool
	spliced  *spliced // nil: the text is the client's
}

func (v *verdict) empty() bool { return v.plan == nil }

// add makes v the union of v and w.
func (v *verdict) add(w verdict) {
	if w.plan == nil {
		return
	}
	if v.plan == nil {
		*v = w
		return
	}
	if !w.hasToken || v.token != w.token {
		v.hasToken = false
	}
	if v.spliced != w.spliced {
		v.spliced = anySplice
	}
	if len(w.more) == 0 && w.plan == v.plan {
		return
	}
	// A fresh slice: v.more may be shared with the definition it was copied from.
	more := make([]*rewrite.Plan, 0, len(v.more)+1+len(w.more))
	more = append(append(append(more, v.more...), w.plan), w.more...)
	v.more = more
}

// each calls f for every possible plan.
func (v *verdict) each(f func(*rewrite.Plan)) {
	if v.plan == nil {
		return
	}
	f(v.plan)
	for _, p := range v.more {
		f(p)
	}
}

// plain reports whether whatever is executed needs no attention.
func (v *verdict) plain() bool {
	if v.plan == nil || !v.plan.Plain {
		return false
	}
	for _, p := range v.more {
		if !p.Plain {
			return false
		}
	}
	return true
}

// definition is one that was sent and not answered.
type definition struct {
	verdict verdict
	segment uint64
}

// named is what the engine knows of a prepared statement or portal: the definition that the server confirmed, and those
// that it has not answered.
//
// A definition that the server skipped after an error, or refused because the name was taken (42P05), must not hide the
// one before it: a Bind in a later segment executes the older one. Within one segment the server executes nothing behind
// a failed message, so there the last definition is the only one that can be met.
type named struct {
	current verdict
	pending definitions
}

// definitions is a queue, the oldest in front.
type definitions struct {
	list []definition
	head int
}

func (q *definitions) all() []definition { return q.list[q.head:] }

// pop drops the oldest. The others move up only when half of the list is free: thousands may wait in a pipeline.
func (q *definitions) pop() {
	q.list[q.head] = definition{}
	q.head++
	if 2*q.head >= len(q.list) {
		n := copy(q.list, q.all())
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
		if n == 0 && cap(q.list) > maxIdle {
			q.list = nil
		}
	}
}

func (n *named) define(v verdict, segment uint64) {
	n.pending.list = append(n.pending.list, definition{v, segment})
}

// settled reports whether the server has answered all definitions.
func (n *named) settled() bool { return len(n.pending.all()) == 0 }

// possible is what a message of the given segment may meet.
func (n *named) possible(segment uint64) verdict {
	pending := n.pending.all()
	if k := len(pending); k == 0 {
		return n.current
	} else if last := pending[k-1]; last.segment == segment {
		return last.verdict
	}
	if len(pending) > maxInDoubt {
		return verdict{plan: anythingPlan}
	}
	v := n.current
	for _, d := range pending {
		v.add(d.verdict)
		if len(v.more) > maxInDoubt {
			return verdict{plan: anythingPlan}
		}
	}
	return v
}

// maxInDoubt bounds the definitions that are told apart; beyond, a name may stand for anything.
const maxInDoubt = 8

// settle takes the oldest pending definition: the server confirmed it, or never ran it.
func (n *named) settle(confirmed bool) {
	if n.settled() {
		return
	}
	if confirmed {
		n.current = n.pending.all()[0].verdict
	}
	n.pending.pop()
}

type statement struct {
	named
	name string // its key in names; "" for the unnamed one
}

type portal struct {
	named
	name string
}

// names are the prepared statements and portals of a session. SQL's PREPARE and the protocol's Parse share one
// namespace, and so do DECLARE and Bind.
type names struct {
	statements map[string]*statement
	portals    map[string]*portal
	unnamedS   statement
	unnamedP   portal
}

// nameLength: PostgreSQL compares no more of a name (dynahash.c string_compare with a key size of NAMEDATALEN).
const nameLength = 63

func cut(name []byte) []byte { return name[:min(len(name), nameLength)] }

func (n *names) statement(name []byte) *statement {
	name = cut(name)
	if len(name) == 0 {
		return &n.unnamedS
	}
	return n.statements[string(name)]
}

func (n *names) makeStatement(name []byte) *statement {
	if s := n.statement(name); s != nil {
		return s
	}
	if n.statements == nil {
		n.statements = make(map[string]*statement)
	}
	s := &statement{name: string(cut(name))}
	n.statements[s.name] = s
	return s
}

func (n *names) portal(name []byte) *portal {
	name = cut(name)
	if len(name) == 0 {
		return &n.unnamedP
	}
	return n.portals[string(name)]
}

func (n *names) makePortal(name []byte) *portal {
	if p := n.portal(name); p != nil {
		return p
	}
	if n.portals == nil {
		n.portals = make(map[string]*portal)
	}
	p := &portal{name: string(cut(name))}
	n.portals[p.name] = p
	return p
}

// tidy removes a name that stands for nothing.
func (n *names) tidy(s *statement, p *portal) {
	if s != nil && s.current.empty() && s.settled() && s.name != "" && n.statements[s.name] == s {
		delete(n.statements, s.name)
	}
	if p != nil && p.current.empty() && p.settled() && p.name != "" && n.portals[p.name] == p {
		delete(n.portals, p.name)
	}
}

// forget drops the confirmed definition of one prepared statement.
func (n *names) forget(name string) {
	s := n.statement([]byte(name))
	if s == nil {
		return
	}
	s.current = verdict{}
	if s.settled() && name != "" {
		delete(n.statements, string(cut([]byte(name))))
	}
}

// forgetStatements drops every confirmed prepared statement: DEALLOCATE ALL, DISCARD ALL.
func (n *names) forgetStatements() {
	for name, s := range n.statements {
		s.current = verdict{}
		if s.settled() {
			delete(n.statements, name)
		}
	}
	n.unnamedS.current = verdict{}
}

// forgetPortals drops every confirmed portal: the transaction ended.
func (n *names) forgetPortals() {
	for name, p := range n.portals {
		p.current = verdict{}
		if p.settled() {
			delete(n.portals, name)
		}
	}
	n.unnamedP.current = verdict{}
}
