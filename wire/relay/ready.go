package relay

import (
	"github.com/fenceproxy/fenceproxy/wire"
)

func (e *Engine) readyForQuery(body []byte, out *Output) reply {
	state, ok := wire.DecodeReadyForQuery(body)
	if !ok {
		return reply{}
	}
	if e.phase != phaseReady {
		return e.startupReady(state, out)
	}
	e.tx.state = state
	e.copyIn, e.copying.under = false, false
	if e.copying.resync >= resyncSent {
		return e.resyncReady()
	}
	if e.cfg.Mode == ModeOff {
		e.syncs = max(0, e.syncs-1)
		e.passed = e.syncs > 0
		return reply{}
	}
	var drop bool
	var answered uint64
	if s := e.slots.front(); s != nil && (s.kind == slotSync || s.kind == slotQuery || s.kind == slotFunction) {
		switch s.purpose {
		case forQuestion:
			e.answered()
			drop = true
		case forProbe:
			drop = e.probe.state != probeFailed
		case forReserved:
			drop = true
		}
		if s.kind == slotSync && s.segment > e.tx.implicit {
			e.tx.implicit = 0
		}
		if s.segment >= e.lexing.until {
			e.lexing.until = 0
		}
		answered = s.segment
		e.pop()
	} else if e.copying.resync != resyncWanted { // of a Sync among the data of a copy that has failed
		return reply{drop: e.loseCount(out)}
	}
	e.skipping = e.skipping && e.copying.resync == resyncNone && e.slots.n > 0
	if e.slots.front() == nil {
		e.open = false
	}
	e.tx.block = state == wire.TxActive && e.tx.changing == 0 && e.tx.implicit == 0
	e.tx.aborted = state == wire.TxFailed && e.tx.changing == 0
	if state != wire.TxFailed {
		e.token.ready()
	}
	if e.ddlChained > 0 && (e.syncs == 0 || answered >= e.ddlChained) && state != wire.TxIdle {
		e.chainEnded(state == wire.TxFailed)
	}
	if state == wire.TxIdle {
		e.names.forgetPortals()
		if e.syncs == 0 {
			e.token.transactionEnded(e.tx.failed)
			e.tx.touchedBefore = false
			e.tx.failed, e.tx.madeReadOnly, e.tx.released = false, false, false
		}
		if e.syncs == 0 || answered >= e.ddlUntil {
			e.catalogChanged()
		}
		e.savepoints = e.savepoints && e.syncs > 0
	} else if state == wire.TxFailed && (e.syncs == 0 || answered >= e.ddlUntil) && !e.savepoints {
		e.catalogUndone()
	}
	e.shadow.ready(state)
	if !drop && e.holdReady(out) {
		drop = true
	}
	return reply{drop: drop}
}
