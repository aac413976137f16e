package relay

import (
	"strconv"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// prepareAhead has the server prepare the fast guard in a segment of its own in front of a Query, so that the next one can
// EXECUTE it instead of having it planned. Not in a transaction: if it fails, it must not break that off.
func (e *Engine) prepareAhead(p *rewrite.Plan) {
	if p.Fences.Empty() || e.open || e.copyIn || e.tx.state != wire.TxIdle || e.tx.changing > 0 ||
		e.reserved.pending(reservedLock) && e.reserved.pending(reservedRead) {
		return
	}
	if _, _, ok := e.fastFence(p.Fences); !ok {
		return
	}
	for _, s := range [...]reserved{reservedLock, reservedRead} {
		e.prepareReserved(s)
		e.slots.at(e.slots.n - 1).ahead = true
	}
	at := len(e.cmem)
	e.cmem = wire.AppendSync(e.cmem)
	e.act.before = append(e.act.before, e.cmem[at:])
	e.boundary(slotSync).become(slotSync, injected, forReserved)
}

// appendExecutes appends the fast guard as EXECUTE of the reserved statements. What stands in the literals is in the
// grammar of tokens, or a valid name: there is no quote and no backslash in it.
func (e *Engine) appendExecutes(fence int, t tokens.Token) {
	m := e.marks[fence]
	b := e.cmem
	b = append(append(append(b, `EXECUTE "`...), e.reserved.name(reservedLock)...), `"(`...)
	b = append(strconv.AppendInt(b, int64(m.ID), 10), `);EXECUTE "`...)
	b = append(append(b, e.reserved.name(reservedRead)...), `"(`...)
	b = append(strconv.AppendInt(b, int64(m.ID), 10), `,'`...)
	b = append(append(b, m.Name...), `','`...)
	b = append(append(b, e.token.guess.raw...), `',`...)
	b = append(strconv.AppendInt(b, t.Epoch, 10), ',')
	b = append(strconv.AppendInt(b, t.Counter, 10), `,'`...)
	e.cmem = append(append(b, e.cfg.Bare...), `');`...)
}

func (e *Engine) prepareReserved(s reserved) {
	if e.reserved.present(s, e.segment) {
		return
	}
	attempt := e.reserved.sent(s, e.segment)
	at := len(e.cmem)
	e.cmem = e.reserved.appendPrepare(e.cmem, s)
	e.act.before = append(e.act.before, e.cmem[at:])
	e.slots.push().become(slotClose, injected, forNothing)
	p := e.slots.push()
	p.become(slotParse, injected, forReserved)
	p.reserved, p.attempt = s, attempt
}
