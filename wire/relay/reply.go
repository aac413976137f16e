package relay

import (
	"github.com/fenceproxy/fenceproxy/wire"
)

// Bounds up to which a message of the server is held to be looked at. A longer one passes (or is dropped) unread.
const (
	maxErrorHeld  = 256 << 10
	maxStatusHeld = 16 << 10
	maxRowHeld    = 64 << 10
	maxTagHeld    = 1 << 10
)

// FromServer takes bytes from the server, all of them. Beside bytes for the client it may carry bytes for the server, which
// go behind all that FromClient has made before, and EffectResume or EffectAnnounce while the client is paused or not yet
// ready.
func (e *Engine) FromServer(in []byte, out *Output) error {
	e.smem = e.smem[:0]
	if e.ending && e.server.rest == 0 && len(e.server.held) == 0 {
		out.ToClient.add(in)
		return nil
	}
	w := window{in: in}
	for w.pos < len(in) && !e.fatal {
		if err := e.nextFromServer(&w, out); err != nil {
			w.flush(&out.ToClient)
			e.lastWords(out)
			return err
		}
	}
	w.flush(&out.ToClient)
	e.lastWords(out)
	return e.wake(out)
}

// wake resumes the client if what it waits for has come.
func (e *Engine) wake(out *Output) error {
	if e.phase != phaseReady || e.fatal {
		return nil
	}
	switch e.pause {
	case pauseLogin:
	case pauseQuiet:
		if e.syncs > 0 && !e.copyIn { // in COPY-IN the server waits for the client
			return nil
		}
	case pauseDepth:
		if e.slots.n > maxUnanswered/2 {
			return nil
		}
	case pauseAsk:
		if e.syncs > 0 {
			return nil
		}
		e.asked = true
	case pauseResync:
		if e.copying.resync != resyncNone {
			return nil
		}
	case pauseProbe:
		if e.probe.state == probeSent {
			return nil
		}
		if e.syncs > 0 {
			return nil
		}
	default:
		return nil
	}
	return e.resume(out)
}

func (e *Engine) nextFromServer(w *window, out *Output) error {
	a := &e.server
	if a.rest > 0 {
		n := min(a.rest, len(w.in)-w.pos)
		a.rest -= n
		if a.drop {
			w.drop(&out.ToClient, n)
		} else {
			w.pos += n
		}
		return nil
	}
	if len(a.held) > 0 {
		return e.assembleFromServer(w, out)
	}
	b := w.in[w.pos:]
	if len(b) < wire.HeaderLen {
		a.held = append(a.held, b...)
		w.drop(&out.ToClient, len(b))
		return nil
	}
	typ, size, ok := wire.Frame(b)
	if !ok {
		return e.lostServer(out)
	}
	if !e.serverLook(typ, size) {
		drop := e.serverType(typ, out)
		n := min(size, len(b))
		a.rest, a.drop = size-n, drop
		if drop {
			w.drop(&out.ToClient, n)
		} else {
			w.pos += n
		}
		return nil
	}
	if len(b) < size {
		a.held = append(grown(a.held, size), b...)
		w.drop(&out.ToClient, len(b))
		return nil
	}
	switch r := e.serverMessage(typ, b[:size], out); {
	case r.instead != nil:
		w.drop(&out.ToClient, size)
		out.ToClient.add(r.instead)
	case r.drop:
		w.drop(&out.ToClient, size)
	default:
		w.pos += size
	}
	return nil
}

func (e *Engine) assembleFromServer(w *window, out *Output) error {
	a := &e.server
	take := func(upTo int) bool {
		n := min(upTo-len(a.held), len(w.in)-w.pos)
		a.held = append(a.held, w.in[w.pos:w.pos+n]...)
		w.drop(&out.ToClient, n)
		return len(a.held) >= upTo
	}
	if len(a.held) < wire.HeaderLen && !take(wire.HeaderLen) {
		return nil
	}
	typ, size, ok := wire.Frame(a.held)
	if !ok {
		return e.lostServer(out)
	}
	var r reply
	if e.serverLook(typ, size) {
		if !take(size) {
			return nil
		}
		r = e.serverMessage(typ, a.held, out)
	} else {
		r.drop = e.serverType(typ, out)
		a.rest, a.drop = size-len(a.held), r.drop
	}
	switch {
	case r.instead != nil:
		out.ToClient.add(r.instead)
	case !r.drop:
		at := len(e.smem)
		e.smem = append(e.smem, a.held...)
		out.ToClient.add(e.smem[at:])
	}
	a.release()
	return nil
}

// lostServer: the server's bytes make no sense. The client is told, and the session ends.
func (e *Engine) lostServer(out *Output) error {
	e.violation("invalid message from the server", out)
	return errFrame
}

// reply is what becomes of a message of the server.
type reply struct {
	instead []byte
	drop    bool
}

// serverLook reports whether the whole message has to be seen.
func (e *Engine) serverLook(typ byte, size int) bool {
	switch typ {
	case wire.BackendReadyForQuery:
		return size == wire.HeaderLen+1
	case wire.BackendErrorResponse:
		return size <= maxErrorHeld
	case wire.BackendParameterStatus:
		return size <= maxStatusHeld
	case wire.BackendCommandComplete:
		return size <= maxTagHeld
	case wire.BackendDataRow:
		s := e.slots.front()
		return s != nil && s.origin == injected && size <= maxRowHeld || e.splicedRow(s, size)
	case wire.BackendNoticeResponse:
		s := e.slots.front()
		return s != nil && (s.query != nil && len(s.query.shifts) > 0 || s.spliced != nil) && size <= maxErrorHeld
	}
	return false
}

// splicedRow: a row of a guard that was spliced into a Query.
func (e *Engine) splicedRow(s *slot, size int) bool {
	return s != nil && s.query != nil && size <= maxRowHeld && s.query.atGuard()
}

func (q *queryRun) atGuard() bool {
	s := q.current()
	return s != nil && s.injected
}

// swallowing reports whether the results that come now are those of something injected.
func (e *Engine) swallowing() bool {
	s := e.slots.front()
	return s != nil && (s.origin == injected || s.query != nil && s.query.atGuard())
}

// serverType deals with messages whose type says enough, and reports whether the client must not see them.
func (e *Engine) serverType(typ byte, out *Output) (drop bool) {
	switch typ {
	case wire.BackendDataRow, wire.BackendCopyData, wire.BackendCopyDone, wire.BackendFunctionCallResponse,
		wire.BackendParameterDescription, wire.BackendCopyOutResponse:
		return e.swallowing()
	case wire.BackendRowDescription, wire.BackendNoData:
		s := e.slots.front()
		if s != nil && s.kind == slotDescribe {
			e.pop()
			return false
		}
		return e.swallowing()
	case wire.BackendParseComplete, wire.BackendBindComplete, wire.BackendCloseComplete, wire.BackendPortalSuspended:
		return e.completed(typ, out)
	case wire.BackendEmptyQueryResponse:
		s := e.slots.front()
		if s == nil || s.kind != slotQuery {
			return e.completed(typ, out)
		}
		return false
	case wire.BackendCopyInResponse:
		e.enterCopyIn() // a guard never copies
		return false
	case wire.BackendErrorResponse: // too long to be looked at
		return e.failed(nil, out).drop
	case wire.BackendCommandComplete:
		return e.commandComplete(nil, out)
	}
	return false
}

func (e *Engine) serverMessage(typ byte, m []byte, out *Output) reply {
	body := m[wire.HeaderLen:]
	switch typ {
	case wire.BackendReadyForQuery:
		return e.readyForQuery(body, out)
	case wire.BackendErrorResponse:
		return e.failed(body, out)
	case wire.BackendParameterStatus:
		e.parameterStatus(body)
	case wire.BackendCommandComplete:
		tag, _ := wire.DecodeCommandComplete(body)
		return reply{drop: e.commandComplete(tag, out)}
	case wire.BackendDataRow:
		e.injectedRow(body)
		return reply{drop: true}
	case wire.BackendNoticeResponse:
		return e.noticed(body)
	}
	return reply{}
}

// injectedRow reads a row of something injected.
func (e *Engine) injectedRow(body []byte) {
	s := e.slots.front()
	if s == nil {
		return
	}
	g := s.guard
	switch {
	case s.purpose == forQuestion:
		e.question.read(body, e.start)
		return
	case s.query != nil:
		g = s.query.current().guard
	}
	if g == nil {
		return
	}
	// Guards tell the token that the session has; NULL, of the session's guard only, is none.
	row, ok := wire.DecodeDataRow(body)
	if !ok {
		return
	}
	if raw, _, ok := row.Column(0); ok {
		e.token.learn(raw, g.serial)
	}
}
