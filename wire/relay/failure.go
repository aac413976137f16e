package relay

import (
	"bytes"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// failed deals with an ErrorResponse; body is nil when it is too long to be looked at.
func (e *Engine) failed(body []byte, out *Output) reply {
	fields := wire.ErrorFields(body)
	if e.phase != phaseReady {
		return e.startupFailed(fields)
	}
	if fatal(fields) {
		return reply{} // the session ends, whatever it was doing
	}
	s := e.slots.front()
	if s == nil {
		return reply{}
	}
	e.copyIn = false
	e.tx.failed = true
	e.token.failed()
	e.tx.disturb()
	if e.copying.under {
		e.copying.under = false
		if e.copying.syncs > 0 && e.copyFailed() {
			if code, _ := fields.Get(wire.FieldCode); string(code) == "08P01" {
				e.ending = true // the server ends the session itself, and says why
				return reply{}
			}
			return e.loseSync(out)
		}
	}
	switch s.kind {
	case slotQuery:
		return e.queryFailed(s, fields)
	case slotSync, slotFunction:
		return e.exchange(s, fields)
	}
	r := e.extendedFailed(s, fields)
	e.dropToSync(out)
	if e.copying.resync == resyncWanted {
		e.skipping = false // until the engine knows better, everything is looked at
	}
	return r
}

func fatal(fields wire.ErrorFields) bool {
	v, _ := fields.Get(wire.FieldSeverityRaw)
	return string(v) == "FATAL" || string(v) == "PANIC"
}

func (e *Engine) extendedFailed(s *slot, fields wire.ErrorFields) reply {
	if s.origin == fromClient && s.spliced != nil {
		return e.splicedFailed(s.spliced.shifts, s.kind == slotExecute, shapeOf(s.plan), fields)
	}
	if s.origin != injected {
		return e.exchange(s, fields)
	}
	if s.ahead {
		return reply{drop: true} // the guard that needs it will say what is wrong
	}
	if s.purpose == forProbe {
		return reply{drop: !e.probeError(fields)}
	}
	return e.guardFailed(s.guard, fields)
}

func (e *Engine) queryFailed(s *slot, fields wire.ErrorFields) reply {
	switch {
	case s.origin == injected: // the session question
		return reply{drop: true}
	case s.query == nil && s.spliced != nil:
		return e.splicedFailed(s.spliced.shifts, true, s.about, fields)
	case s.query == nil:
		return e.exchange(s, fields)
	case s.query.atGuard() && s.query.next == 0 && syntaxError(s.query.shifts, fields):
		return e.positioned(wire.BackendErrorResponse, s.query.shifts, fields)
	case s.query.atGuard():
		return e.guardFailed(s.query.current().guard, fields)
	case len(s.query.shifts) > 0:
		return e.splicedFailed(s.query.shifts, s.query.rows, shapeOf(s.query.plan), fields)
	}
	return reply{}
}

// syntaxError: PostgreSQL reads the whole string before it runs any of it (postgres.c exec_simple_query), guard included, and
// met something in the client's text that its version does not know.
func syntaxError(shifts []rewrite.Shift, fields wire.ErrorFields) bool {
	code, _ := fields.Get(wire.FieldCode)
	position, ok := errorPosition(fields)
	if string(code) != "42601" || !ok {
		return false
	}
	_, ok = rewrite.Original(shifts, position)
	return ok
}

// exchange puts the refusal of a poisoned message in place of the error that the poison caused.
func (e *Engine) exchange(s *slot, fields wire.ErrorFields) reply {
	if s.origin != poisoned || s.refusal == nil {
		return reply{}
	}
	if code, _ := fields.Get(wire.FieldCode); string(code) != "42601" {
		return reply{} // not the poison's: the server never came to it
	}
	at := len(e.smem)
	e.smem = s.refusal.append(e.smem, "ERROR")
	return reply{instead: e.smem[at:]}
}

// positioned corrects the position in an error of a text that something was put into.
func (e *Engine) positioned(typ byte, shifts []rewrite.Shift, fields wire.ErrorFields) reply {
	p, ok := errorPosition(fields)
	if !ok {
		return reply{}
	}
	edit := wire.ErrorEdit{Position: wire.DropPosition}
	if mapped, ok := rewrite.Original(shifts, p); ok {
		edit.Position = mapped
	}
	at := len(e.smem)
	b, ok := wire.AppendEditedError(e.smem, typ, fields, edit)
	if !ok {
		return reply{}
	}
	e.smem = b
	return reply{instead: e.smem[at:]}
}

func errorPosition(fields wire.ErrorFields) (p int, ok bool) {
	text, ok := fields.Get(wire.FieldPosition)
	for _, c := range text {
		if c < '0' || c > '9' || p > 1<<30 {
			return 0, false
		}
		p = p*10 + int(c-'0')
	}
	return p, ok
}

func (e *Engine) noticed(body []byte) reply {
	s := e.slots.front()
	switch {
	case s != nil && s.query != nil:
		return e.positioned(wire.BackendNoticeResponse, s.query.shifts, wire.ErrorFields(body))
	case s != nil && s.spliced != nil:
		return e.positioned(wire.BackendNoticeResponse, s.spliced.shifts, wire.ErrorFields(body))
	}
	return reply{}
}

// guardFailed passes on what a guard says about the token, and turns any other error of the guard into ZF005: the client
// must not take it for an error of its own statement.
func (e *Engine) guardFailed(g *guardRun, fields wire.ErrorFields) reply {
	code, _ := fields.Get(wire.FieldCode)
	message, _ := fields.Get(wire.FieldMessage)
	switch {
	case len(code) == 5 && code[0] == 'Z' && code[1] == 'F':
		if r := e.unknownName(string(code), fields); r != nil {
			e.rejected(r.Code, r.Fence, ByDatabase, g.shape())
			at := len(e.smem)
			e.smem = r.append(e.smem, "ERROR")
			return reply{instead: e.smem[at:]}
		}
		e.rejected(string(code), e.guardedFence(g), ByDatabase, g.shape())
		return e.plainError(fields)
	case string(code) == "25P02", // the transaction was aborted before: the client's statement would have met the same
		string(code) == "40001", // a snapshot older than a raise: a retry gets a clear answer
		string(code) == "57014" && bytes.Contains(message, []byte("user request")):
		return e.withoutPosition(fields)
	case string(code) == "26000":
		e.reserved.lose() // something unseen deallocated the guard: it is prepared again next time
	}
	r := refusal{Error: tokens.Error{
		Code:    tokens.CodeUnavailable,
		Message: "the fencing token could not be checked",
		Detail:  "The guard failed: " + string(message) + " (SQLSTATE " + string(code) + ").",
		Hint:    guardHint(string(code)),
	}}
	e.rejected(r.Code, e.guardedFence(g), ByDatabase, g.shape())
	at := len(e.smem)
	e.smem = r.append(e.smem, "ERROR")
	return reply{instead: e.smem[at:]}
}

// unknownName: the guard missed a token, or met one that was never announced, because the list that the session has names
// no fence of this configuration. The database does not know the configuration; it tells the list in the error's datatype
// field (tokens/schema fence.missing, fence.guard_one).
func (e *Engine) unknownName(code string, fields wire.ErrorFields) *refusal {
	if code != tokens.CodeRequired && code != tokens.CodeUnannounced {
		return nil
	}
	raw, _ := fields.Get(wire.FieldDatatype)
	list, err := tokens.Parse(string(raw))
	if err != nil {
		return nil
	}
	if err := list.Check(e.cfg.Fences, e.cfg.Bare); err != nil {
		return refuse(err)
	}
	return nil
}

func guardHint(code string) string {
	switch code {
	case "3F000", "42883", "42P01", "42704":
		return "The fence schema is missing in this database. Run: fenceproxy init"
	case "42501":
		return "The session's role may not use the fence schema. Run: fenceproxy init"
	case "55P03", "57014":
		return "A takeover was waiting for the fence, or the session's timeout is too short. Try again."
	}
	return ""
}

// plainError passes on what an error says, without where in the guard's code it was raised: so that it looks the same from
// a guard, from a raise and from the proxy's memory.
func (e *Engine) plainError(fields wire.ErrorFields) reply {
	text := func(field byte) string {
		v, _ := fields.Get(field)
		return string(v)
	}
	at := len(e.smem)
	e.smem = wire.AppendError(e.smem, &wire.Error{
		Severity: "ERROR", Code: text(wire.FieldCode), Message: text(wire.FieldMessage),
		Detail: text(wire.FieldDetail), Hint: text(wire.FieldHint),
	})
	return reply{instead: e.smem[at:]}
}

// withoutPosition drops the position, which is one in the guard's text.
func (e *Engine) withoutPosition(fields wire.ErrorFields) reply {
	if _, ok := fields.Get(wire.FieldPosition); !ok {
		return reply{}
	}
	at := len(e.smem)
	b, ok := wire.AppendEditedError(e.smem, wire.BackendErrorResponse, fields, wire.ErrorEdit{Position: wire.DropPosition})
	if !ok {
		return reply{}
	}
	e.smem = b
	return reply{instead: e.smem[at:]}
}

// guardedFence is the fence of a guard when it is a single one, for the metrics.
func (e *Engine) guardedFence(g *guardRun) string {
	if g == nil || g.demand.session {
		return ""
	}
	fence := ""
	for i, name := range e.cfg.Fences {
		if g.demand.fences.Has(i) || g.demand.rows.Has(i) {
			if fence != "" {
				return ""
			}
			fence = name
		}
	}
	return fence
}
