package relay

import (
	"github.com/fenceproxy/fenceproxy/wire"
)

// wholeBind is the size up to which a Bind is looked at whole, for a token among its parameters. Larger ones stream.
const wholeBind = 16 << 10

// smallMessage is PQ_SMALL_MESSAGE_LIMIT: PostgreSQL ends a session that sends a longer Execute or Close (postgres.c
// SocketBackend).
const smallMessage = 10000 + 1

func (e *Engine) clientLook(typ byte, size int) look {
	if e.phase != phaseReady || e.skipping {
		return lookType
	}
	switch typ {
	case wire.FrontendQuery, wire.FrontendParse, wire.FrontendExecute, wire.FrontendClose, wire.FrontendDescribe,
		wire.FrontendFunctionCall:
		return lookWhole
	case wire.FrontendBind:
		if size <= wholeBind {
			return lookWhole
		}
		return lookNames
	}
	return lookType
}

func (e *Engine) sizeAllowed(typ byte, size int) bool {
	if e.phase != phaseReady || e.skipping {
		return true
	}
	switch typ {
	case wire.FrontendQuery, wire.FrontendParse, wire.FrontendFunctionCall:
		return size <= e.cfg.maxStatement()+wire.HeaderLen
	case wire.FrontendExecute, wire.FrontendClose, wire.FrontendDescribe, wire.FrontendSync, wire.FrontendFlush:
		return size <= smallMessage
	}
	return true
}

// oversized refuses a statement that is too long to be looked at, and drops it as it arrives; of other types PostgreSQL
// itself ends the session.
func (e *Engine) oversized(typ byte, size int, w *window, out *Output) error {
	switch typ {
	case wire.FrontendQuery, wire.FrontendParse, wire.FrontendFunctionCall:
	default:
		return e.refuseFrame(out)
	}
	a := &e.client
	arrived := len(a.held)
	a.held = a.held[:0]
	e.act.reset()
	if typ != wire.FrontendParse {
		e.poisonQuery(refuseTooLong(e.cfg.maxStatement()))
	} else {
		e.poisonExtended(refuseTooLong(e.cfg.maxStatement()))
	}
	w.flush(&out.ToServer)
	e.emit(nil, out)
	a.rest, a.drop = size-arrived, true
	return nil
}

// clientType sees messages of which the type says enough.
func (e *Engine) clientType(typ byte) {
	e.act.reset()
	if e.phase != phaseReady {
		if typ != wire.FrontendPassword && typ != wire.FrontendTerminate {
			e.act.pause = pauseLogin
		}
		return
	}
	if e.copying.resync == resyncWanted && typ != wire.FrontendTerminate {
		e.startResync()
		return
	}
	if e.slots.n >= maxUnanswered {
		e.act.pause = pauseDepth
		return
	}
	switch typ {
	case wire.FrontendSync:
		if e.copyIn {
			e.copying.syncs++
			e.copying.amongData = e.copying.amongData || e.dataSent
			return // ignored by the server (copyfromparse.c CopyGetData)
		}
		if e.lookFirst() { // the first of two answers would pass at once, and that is the one to the DDL
			e.act.pause = pauseQuiet
			return
		}
		e.skipping = false
		e.boundary(slotSync)
		e.open = false
	case wire.FrontendTerminate:
		if e.lookFirst() { // the server would end the session, and the answer to the DDL with it
			e.act.pause = pauseQuiet
		}
	case wire.FrontendCopyData:
		e.dataSent = true
	case wire.FrontendCopyDone, wire.FrontendCopyFail:
		if e.skipping {
			return
		}
		e.copyIn = false
		if e.slots.n > 0 {
			e.slots.push().kind = slotCopyEnd
		}
	}
}

// boundary pushes the slot of a message that ReadyForQuery answers.
func (e *Engine) boundary(kind slotKind) *slot {
	e.segment++
	e.syncs++
	e.tx.boundary()
	if kind != slotSync && e.open {
		e.tx.implicit = e.segment
		e.tx.disturb()
	}
	s := e.slots.push()
	s.kind, s.segment = kind, e.segment
	return s
}

// clientMessage decides about one message. b holds all of it, or for a long Bind at least its names; size is its full
// size. The decision is in e.act.
func (e *Engine) clientMessage(typ byte, b []byte, size int) error {
	e.act.reset()
	if e.copyIn && e.copying.amongData && e.enforcing() {
		return errInCopy
	}
	if e.copying.resync == resyncWanted {
		e.startResync()
		return nil
	}
	if e.slots.n >= maxUnanswered {
		e.act.pause = pauseDepth
		return nil
	}
	if e.lookFirst() {
		e.act.pause = pauseQuiet
		return nil
	}
	e.dataSent = false
	e.lookUp()
	body := b[wire.HeaderLen:]
	var ok bool
	switch typ {
	case wire.FrontendParse:
		ok = e.clientParse(body)
		e.open = true
	case wire.FrontendBind:
		ok = e.clientBind(body, len(b) == size)
		e.open = true
	case wire.FrontendDescribe:
		var target byte
		var name []byte
		if target, name, ok = wire.DecodeDescribe(body); ok && !(e.enforcing() && e.refuseName(name)) {
			s := e.slots.push()
			s.kind, s.spliced = slotDescribe, e.ofDescribed(target, name)
		}
		e.open = true
	case wire.FrontendClose:
		ok = e.clientClose(body)
		e.open = true
	case wire.FrontendExecute:
		ok = e.clientExecute(body)
		e.open = true
	case wire.FrontendQuery:
		ok = e.clientQuery(body)
	case wire.FrontendFunctionCall:
		ok = e.clientFunctionCall(body)
	}
	if !ok {
		return e.malformed(typ, len(b) == size)
	}
	return nil
}

// malformed deals with a message whose body is not in order: PostgreSQL answers it with an error and goes on.
func (e *Engine) malformed(typ byte, whole bool) error {
	switch {
	case !whole:
		return errMalformed
	case !e.enforcing():
		if typ == wire.FrontendQuery || typ == wire.FrontendFunctionCall {
			e.boundary(slotKind(typ))
		} else {
			e.slots.push().kind = slotKind(typ)
		}
	case typ == wire.FrontendQuery || typ == wire.FrontendFunctionCall:
		e.poisonQuery(refuseMalformed)
	default:
		e.poisonExtended(refuseMalformed)
	}
	return nil
}
