package relay

import (
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/wire"
)

// prepareAhead has the server prepare the fast guard in a segment of its own in front of a Query, so that the next one can
// EXECUTE it instead of having it planned. Not in a transaction: if it fails, it must not break that off.
func (e *Engine) prepareAhead(p *rewrite.Plan) {
	if e.cfg.Walsender || p.Fences.Empty() || e.open || e.copyIn || e.tx.state != wire.TxIdle || e.tx.changing > 0 {
		return
	}
	fence, t, ok := e.fastFence(p.Fences, rewrite.FenceSet{})
	if !ok {
		return
	}
	f := e.fastGuard(fence, t)
	if e.reserved.pending(f.lock) && e.reserved.pending(f.read) {
		return
	}
	for _, s := range [...]reserved{f.lock, f.read} {
		n := e.slots.n
		e.prepareReserved(s)
		for ; n < e.slots.n; n++ {
			e.slots.at(n).ahead = true
		}
	}
	at := len(e.cmem)
	e.cmem = wire.AppendSync(e.cmem)
	e.act.before = append(e.act.before, e.cmem[at:])
	e.boundary(slotSync).become(slotSync, injected, forReserved)
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
