package relay

import (
	"fmt"
	"slices"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// refusal is an error that the client gets in place of what it asked for.
type refusal struct {
	tokens.Error
	by By
}

func refuse(err *tokens.Error) *refusal { return &refusal{Error: *err, by: ByProxy} }

func refuseTooLong(limit int) refusal {
	return refusal{Error: tokens.Error{
		Code:    "54000", // program_limit_exceeded
		Message: "statement is too long for the proxy to check",
		Detail:  fmt.Sprintf("The limit is %d bytes (max_statement_bytes).", limit),
	}, by: ByProxy}
}

func refuseReservedName() refusal {
	return refusal{Error: tokens.Error{
		Code:    tokens.CodeNotAllowed,
		Message: "this prepared statement or portal belongs to the proxy",
		Hint:    "It checks the session's fencing token. Use another name.",
	}, by: ByProxy}
}

var refuseCall = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "CALL and DO are not allowed through this proxy",
	Detail:  "They may commit inside, where no guard can run (opaque_call: reject).",
}, by: ByProxy}

var refuseUnread = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "the proxy cannot read this string of several statements",
	Detail:  "PostgreSQL can, so that it may write fenced data unseen.",
	Hint:    "Send its statements one at a time.",
}, by: ByProxy}

var refuseReplicationCommand = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "replication commands are not allowed through this proxy",
	Detail:  "In a session with replication=database it can read SQL only.",
	Hint:    "Connect to the server directly.",
}, by: ByProxy}

var refusePooled = refusal{Error: tokens.Error{
	Code:    tokens.CodeMalformed,
	Message: "fence.token must be set with SET LOCAL here",
	Detail:  "Connections to this address are shared by a transaction pooler: a plain SET would reach its next client.",
	Hint:    "Use SET LOCAL fence.token = ... in the transaction that writes.",
}, by: ByProxy}

var refuseOwnToken = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "fence.token is set by fenceproxy here",
	Detail:  "This proxy holds the lock for its clients (hold).",
}, by: ByProxy}

// The server must refuse the client's message itself, in its place among the others: what follows is skipped or rolled
// back by PostgreSQL's own rules, and the client's count of replies stays right. So the message is replaced by one with
// a syntax error, which is raised before anything else is looked at (postgres.c exec_parse_message, exec_simple_query:
// raw parsing comes before the check for an aborted transaction), and the error that comes back is exchanged.
const poisonSQL = "refused by fenceproxy"

// poisonQuery replaces the current Query.
func (e *Engine) poisonQuery(r refusal) {
	at := len(e.cmem)
	e.cmem = wire.AppendQuery(e.cmem, poisonSQL)
	e.act.instead = e.cmem[at:]
	e.refusing(e.boundary(slotQuery), r)
}

// poisonExtended replaces the current message of the extended protocol. The Parse has a reserved name: the client's
// unnamed statement survives.
func (e *Engine) poisonExtended(r refusal) {
	at := len(e.cmem)
	e.cmem = wire.AppendParse(e.cmem, e.reserved.poison(), poisonSQL)
	e.act.instead = e.cmem[at:]
	s := e.slots.push()
	s.kind = slotParse
	e.refusing(s, r)
}

func (e *Engine) refusing(s *slot, r refusal) {
	s.origin = poisoned
	s.refusal = &r
	e.rejected(r.Code, r.Fence, r.by, e.about)
}

// refuseName poisons a message that names something of the engine's own, or by a name that the engine could take for
// another one than the server does: that converts it from the client's encoding, which may change.
func (e *Engine) refuseName(name []byte) bool {
	switch {
	case e.reserved.owns(name):
		e.poisonExtended(refuseReservedName())
	case !ascii(name):
		e.poisonExtended(refuseForeignName)
	default:
		return false
	}
	return true
}

// refuseMalformed has PostgreSQL's words (pqformat.c pq_getmsgend).
var refuseMalformed = refusal{Error: tokens.Error{Code: "08P01", Message: "invalid message format"}, by: ByProxy}

var refuseForeignSplice = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "the row token cannot be added to this statement in the session's client_encoding",
	Detail:  "Names that are not ASCII would have to be added.",
	Hint:    "SET client_encoding = 'UTF8'.",
}, by: ByProxy}

var refuseNested = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "too many prepared statements and cursors execute one another",
}, by: ByProxy}

var refuseForeignName = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "names of prepared statements and portals must be ASCII through this proxy",
}, by: ByProxy}

func ascii[S []byte | string](s S) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// refusalOf is why a statement must not run, whatever the tokens are.
func (e *Engine) refusalOf(st *rewrite.Statement) *refusal {
	switch {
	case st.Refuse != nil:
		return &refusal{Error: tokens.Error{Code: st.Refuse.Code, Message: st.Refuse.Message, Hint: st.Refuse.Hint}, by: ByProxy}
	case e.cfg.Call == CallReject && (st.Kind == rewrite.KindCall || st.Kind == rewrite.KindDo):
		return &refuseCall
	case st.Name != "" && e.reserved.ownsString(st.Name):
		r := refuseReservedName()
		return &r
	case st.Kind == rewrite.KindExecute || st.Kind == rewrite.KindFetch:
		if r := e.refusalOfRun(st); r != nil {
			return r
		}
	}
	switch {
	case st.Name != "" && !ascii(st.Name):
		switch st.Kind {
		case rewrite.KindPrepare, rewrite.KindExecute, rewrite.KindDeallocate:
			return &refuseForeignName
		}
	}
	return nil
}

// refusalOfRun: what EXECUTE or FETCH would run was parsed by a message of its own, and must not run, nor what that runs: the
// protocol prepares EXECUTE, FETCH and PREPARE too, and EXECUTE and FETCH run them.
func (e *Engine) refusalOfRun(st *rewrite.Statement) *refusal {
	var seen []*named
	return e.refusalBehind(st, &seen)
}

// maxBehind bounds the names that one EXECUTE may lead to through others.
const maxBehind = 64

// refusalBehind leaves out what it has seen: names may lead to each other.
func (e *Engine) refusalBehind(st *rewrite.Statement, seen *[]*named) (r *refusal) {
	n := e.namedBy(st)
	switch {
	case n == nil || slices.Contains(*seen, n):
		return nil
	case len(*seen) == maxBehind:
		return &refuseNested
	}
	*seen = append(*seen, n)
	v := n.possible(e.segment)
	v.each(func(p *rewrite.Plan) {
		if r == nil {
			r = e.refusalOfColumns(p)
		}
		for i := 0; i < len(p.Statements) && r == nil; i++ {
			switch inner := &p.Statements[i]; {
			case inner.Refuse != nil:
				r = e.refusalOf(inner)
			case inner.Kind == rewrite.KindExecute || inner.Kind == rewrite.KindFetch:
				r = e.refusalBehind(inner, seen)
			}
		}
	})
	return r
}

// namedBy is what EXECUTE or FETCH names, nil if that is nothing.
func (e *Engine) namedBy(st *rewrite.Statement) *named {
	if st.Kind == rewrite.KindExecute {
		if s := e.names.statement([]byte(st.Name)); s != nil {
			return &s.named
		}
	} else if p := e.names.portal([]byte(st.Name)); p != nil && st.Name != "" {
		return &p.named
	}
	return nil
}

func (e *Engine) refusalOfPlan(p *rewrite.Plan) *refusal {
	if p == nil {
		return nil
	}
	if r := e.refusalOfColumns(p); r != nil {
		return r
	}
	for i := range p.Statements {
		st := &p.Statements[i]
		if r := e.refusalOf(st); r != nil {
			return r
		}
		if st.Kind == rewrite.KindPrepareTx && e.analyzer.AsksForColumns() {
			if _, doubtful := e.changeOf(p); doubtful || e.ddlInDoubt {
				return &refusePreparedColumns
			}
		}
	}
	return nil
}

// passingRefusal: who prepares a text that is refused only now is told at once. It would be parsed without its stamps, and a
// driver that keeps it would be refused for ever.
func (e *Engine) passingRefusal(p *rewrite.Plan) *refusal {
	if !e.enforcing() {
		return nil
	}
	for i := range p.Statements {
		if r := p.Statements[i].Refuse; r != nil && r.Passing {
			return e.refusalOf(&p.Statements[i])
		}
	}
	return nil
}

// refusalOfColumns: what a text has of the catalog may be no more.
func (e *Engine) refusalOfColumns(p *rewrite.Plan) *refusal {
	if !p.RestsOnCatalog() {
		return nil
	}
	c, _ := e.changeOf(p)
	switch {
	case max(e.ddl, c) == rewrite.CatalogColumns:
		return &refuseUnsettledColumns
	case !e.analyzer.Holds(p):
		return &refuseChangedColumns
	}
	return nil
}

func (e *Engine) refuseExecute(v verdict) bool {
	r := e.refusalOfPlan(v.plan)
	for i := 0; r == nil && i < len(v.more); i++ {
		r = e.refusalOfPlan(v.more[i])
	}
	v.each(func(p *rewrite.Plan) {
		if r == nil {
			r = e.refusalOfTokenless(p, true)
		}
	})
	if r == nil {
		return false
	}
	e.poisonExtended(*r)
	return true
}

// knownStale refuses without asking the database, when the server has confirmed the token and the token is known to be
// stale: it will be for ever.
func (e *Engine) knownStale(d *demand) *refusal {
	if e.cfg.Known == nil || !e.token.sure || e.tx.state == wire.TxFailed {
		return nil
	}
	for i, fence := range e.cfg.Fences {
		if !d.fences.Has(i) && !d.rows.Has(i) {
			continue
		}
		if r := e.staleToken(fence, !d.fences.Has(i)); r != nil {
			return r
		}
	}
	return nil
}

// append appends the refusal as the client sees it.
func (r *refusal) append(dst []byte, severity string) []byte {
	return wire.AppendError(dst, &wire.Error{
		Severity: severity, Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint,
	})
}

// fatalError ends the session with an error of the proxy's own.
func (e *Engine) fatalError(err *tokens.Error, out *Output) {
	e.fatal = true
	e.smem = (&refusal{Error: *err}).append(e.smem, "FATAL")
	out.ToClient.add(e.smem)
	out.Close = true
}

func (e *Engine) refuseFrame(out *Output) error {
	e.violation("invalid message length", out)
	return errFrame
}

func (e *Engine) broken(err error, out *Output) error {
	if err == errInCopy {
		e.violation("unexpected message during COPY from stdin", out)
	} else {
		e.violation("invalid message format", out)
	}
	return err
}

// violation ends the session with an error (08P01), as PostgreSQL does when the protocol is broken. It is said behind all
// that was handed out before: see lastWords.
func (e *Engine) violation(message string, out *Output) {
	e.fatal = true
	r := refusal{Error: tokens.Error{Code: "08P01", Message: message}}
	e.words = r.append(nil, "FATAL")
	out.Close = true
}

// lastWords says what ends the session, once everything in front of it is in out.
func (e *Engine) lastWords(out *Output) {
	out.ToClient.add(e.words)
	e.words = nil
}
