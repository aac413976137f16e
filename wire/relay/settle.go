package relay

import (
	"github.com/fenceproxy/fenceproxy/wire"
)

// completed pops the slot of a message that the server has carried out.
func (e *Engine) completed(typ byte, out *Output) (drop bool) {
	if typ == wire.BackendCloseComplete && (e.copying.resync == resyncSent || e.copying.resync == resyncMark) {
		e.resyncClosed()
		return true
	}
	s := e.slots.front()
	if s == nil {
		return e.loseCount(out)
	}
	switch {
	case typ == wire.BackendParseComplete && s.kind == slotParse:
		if s.purpose == forReserved {
			e.reserved.answered(s.reserved, s.attempt, true)
			s.purpose = forNothing
		} else if s.purpose == forProbe {
			e.probe.state = probeParsed
		} else if s.statement != nil {
			s.statement.settle(true)
			s.statement = nil
		}
	case typ == wire.BackendBindComplete && s.kind == slotBind:
		if s.portal != nil {
			s.portal.settle(true)
			s.portal = nil
		}
	case typ == wire.BackendCloseComplete && s.kind == slotClose:
		if s.statement != nil {
			s.statement.current = verdict{}
		}
		if s.portal != nil {
			s.portal.current = verdict{}
		}
		e.names.tidy(s.statement, s.portal)
		s.statement, s.portal = nil, nil
	case (typ == wire.BackendPortalSuspended || typ == wire.BackendEmptyQueryResponse) && s.kind == slotExecute:
	default:
		return e.loseCount(out)
	}
	drop = s.origin == injected
	e.pop()
	return drop
}

func (e *Engine) commandComplete(tag []byte, out *Output) (drop bool) {
	if e.phase != phaseReady {
		return e.swallowing()
	}
	s := e.slots.front()
	if s == nil {
		return e.loseCount(out)
	}
	if s.kind == slotQuery {
		if s.query != nil {
			if !s.query.atGuard() {
				e.copyDone()
			}
			return e.stepDone(s.query, tag) || s.origin == injected
		}
		e.copyDone()
		return s.origin == injected
	}
	if s.kind != slotExecute {
		return e.loseCount(out)
	}
	drop = s.origin == injected
	if !drop {
		e.copyDone()
	}
	if s.purpose == forGuard {
		e.guardPassed(s.guard)
	}
	if s.plan != nil && s.origin == fromClient {
		if st := lone(s.plan); st != nil {
			e.statementDone(st, s.lost)
		}
		if s.token != nil {
			e.token.confirmed(s.token.serial)
		}
		if s.statement != nil { // PREPARE
			s.statement.settle(true)
			s.statement = nil
		}
	}
	e.pop()
	return drop
}

// pop drops the front slot and what it still holds: what was not settled by then never will be.
func (e *Engine) pop() {
	s := e.slots.at(0)
	if s.statement != nil && s.kind != slotClose {
		s.statement.settle(false)
		e.names.tidy(s.statement, nil)
	}
	if s.portal != nil && s.kind == slotBind {
		s.portal.settle(false)
		e.names.tidy(nil, s.portal)
	}
	if s.purpose == forReserved {
		e.reserved.answered(s.reserved, s.attempt, false)
	}
	if s.guard != nil {
		e.runs.putGuard(s.guard)
	}
	if s.query != nil {
		e.endQuery(s.query)
	}
	if s.changesTx {
		e.tx.changing--
	}
	switch s.kind {
	case slotSync, slotQuery, slotFunction:
		e.syncs--
	}
	e.slots.pop()
}

// dropToSync drops the slots of everything that the server skips after an error in the extended protocol.
func (e *Engine) dropToSync(out *Output) {
	for e.slots.n > 0 {
		switch s := e.slots.at(0); {
		case s.kind == slotSync:
			return
		case s.behindGuard:
			e.guardInFrontFailed(s, out)
			return
		}
		e.pop()
	}
	e.skipping = true
}
