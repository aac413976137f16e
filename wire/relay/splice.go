package relay

import (
	"math"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/wire"
)

// spliced is a text that was sent with row tokens in it (package rewrite): where it differs from the client's.
type spliced struct{ shifts []rewrite.Shift }

// anySplice stands for one of several texts: no position can be mapped back.
var anySplice = &spliced{[]rewrite.Shift{{Inserted: math.MaxInt32}}}

// splices reports whether a text with this plan is sent with row tokens: also one that is refused now, when it is parsed.
// What is refused for a time would be without them for ever.
func (e *Engine) splices(p *rewrite.Plan) bool {
	return p.Spliced() && e.enforcing()
}

// foreignSplice: what is put into a text is UTF-8, and the session's encoding is another one, or may be. It may pause the
// current message until that is known.
func (e *Engine) foreignSplice(p *rewrite.Plan) *refusal {
	switch {
	case p.ASCIISplice || !e.bytewise && e.lexing.until == 0:
		return nil
	case e.lexing.until > 0 && e.syncs > 0 && !e.copyIn:
		e.act.pause = pauseQuiet
		return nil
	}
	return &refuseForeignSplice
}

// spliceMessage makes the current message anew with the spliced text in place of sql, between head and tail of its body.
func (e *Engine) spliceMessage(typ byte, a rewrite.Analysis, head, sql, tail []byte) *spliced {
	at := len(e.cmem)
	e.cmem = append(append(e.cmem, typ, 0, 0, 0, 0), head...)
	e.cmem = a.AppendSpliced(e.cmem, sql, 0, len(sql))
	e.cmem = append(e.cmem, tail...)
	e.act.instead = finishMessage(e.cmem[at:])
	return &spliced{a.AppendShifts(nil, sql, 0, len(sql), 0, e.charsOf)}
}

// splicedFailed passes on an error of a text that the client has not sent so.
func (e *Engine) splicedFailed(shifts []rewrite.Shift, rows bool, shape uint64, fields wire.ErrorFields) reply {
	if code, _ := fields.Get(wire.FieldCode); rows && len(code) == 5 && code[0] == 'Z' && code[1] == 'F' {
		e.rejected(string(code), "", ByRow, shape)
		return e.plainError(fields)
	}
	return e.positioned(wire.BackendErrorResponse, shifts, fields)
}

// ofDescribed is the spliced text that a message about a prepared statement or portal may meet.
func (e *Engine) ofDescribed(target byte, name []byte) *spliced {
	if target == wire.TargetStatement {
		if s := e.names.statement(name); s != nil {
			v := s.possible(e.segment)
			return v.spliced
		}
	} else if p := e.names.portal(name); p != nil {
		v := p.possible(e.segment)
		return v.spliced
	}
	return nil
}

// mapBack fills offsets of a text whose bytes beyond ASCII were made two each.
func mapBack(patches []rewrite.Patch, sql []byte, dst []rewrite.Patch, longer int) []rewrite.Patch {
	back := make([]int32, longer+1)
	at := 0
	for i, c := range sql {
		back[at] = int32(i)
		at++
		if c >= 0x80 {
			back[at] = int32(i)
			at++
		}
	}
	back[at] = int32(len(sql))
	for _, p := range patches {
		p.At, p.End, p.From, p.To = back[p.At], back[p.End], back[p.From], back[p.To]
		dst = append(dst, p)
	}
	return dst
}
