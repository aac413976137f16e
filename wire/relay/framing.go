package relay

import (
	"github.com/fenceproxy/fenceproxy/wire"
)

// assembly puts together a message that arrives in pieces. A message is held only if the engine has to see it; of all
// others the header is enough, and the rest is counted off as it passes.
type assembly struct {
	held []byte // the beginning of a message, or a whole one that waits
	rest int    // bytes of the current message that are still to come and need no look
	drop bool   // and are to be dropped instead of passed on
	full bool   // held is a whole message (or all that will be looked at of it)
}

func (a *assembly) partial() bool { return len(a.held) > 0 || a.rest > 0 }

// maxKept is the capacity above which the buffer of a held message is not kept for the next one.
const maxKept = 64 << 10

func (a *assembly) release() {
	if cap(a.held) > maxKept {
		a.held = nil
	} else {
		a.held = a.held[:0]
	}
	a.full = false
}

// window is a read position in one input; bytes from start to pos were looked at and not yet handed out.
type window struct {
	in         []byte
	start, pos int
}

func (w *window) flush(to *Segments) {
	to.add(w.in[w.start:w.pos])
	w.start = w.pos
}

// drop jumps over the n bytes at pos, after handing out what stands in front of them.
func (w *window) drop(to *Segments, n int) {
	w.flush(to)
	w.pos += n
	w.start = w.pos
}

// look says how much of a message the engine has to see before it can decide.
type look uint8

const (
	lookType  look = iota // its type byte
	lookWhole             // all of it
	lookNames             // a Bind: the two names in front
)

// action is what the engine does with one message: put messages of its own in front, and pass, replace or drop it.
type action struct {
	before  [][]byte
	instead []byte
	drop    bool
	pause   pause
	// forget: after a pause, do not look at the message again; it was dealt with.
	forget bool
}

func (a *action) reset() {
	clear(a.before)
	a.before, a.instead, a.drop, a.pause, a.forget = a.before[:0], nil, false, pauseNone, false
}

func (a *action) pass() bool { return len(a.before) == 0 && a.instead == nil && !a.drop }

// FromClient takes bytes from the client. It consumes all of them unless the engine has to wait (EffectWait,
// EffectAnnounce): then in[n:] must be given again after a resume. An error means that the session cannot go on: what out
// holds is written first, then both legs are ended.
func (e *Engine) FromClient(in []byte, out *Output) (n int, err error) {
	e.cmem = e.cmem[:0]
	if e.cfg.Mode == ModeOff {
		return e.passClient(in, out)
	}
	if e.ending {
		return len(in), nil
	}
	w := window{in: in}
	for w.pos < len(in) && e.pause == pauseNone && !e.fatal {
		if err := e.nextFromClient(&w, out); err != nil {
			w.flush(&out.ToServer)
			e.lastWords(out)
			return w.pos, err
		}
	}
	w.flush(&out.ToServer)
	e.lastWords(out)
	e.setPauseEffect(out)
	return w.pos, nil
}

func (e *Engine) nextFromClient(w *window, out *Output) error {
	a := &e.client
	if a.rest > 0 {
		n := min(a.rest, len(w.in)-w.pos)
		a.rest -= n
		if a.drop {
			w.drop(&out.ToServer, n)
		} else {
			w.pos += n
		}
		return nil
	}
	if e.behindGuard && e.holdBehindGuard(w) {
		return nil
	}
	if len(a.held) > 0 {
		return e.assembleFromClient(w, out)
	}
	b := w.in[w.pos:]
	if len(b) < wire.HeaderLen {
		a.held = append(a.held, b...)
		w.drop(&out.ToServer, len(b))
		return nil
	}
	typ, size, ok := wire.Frame(b)
	if !ok {
		return e.refuseFrame(out)
	}
	if !e.sizeAllowed(typ, size) {
		return e.oversized(typ, size, w, out)
	}
	switch e.clientLook(typ, size) {
	case lookType:
		e.clientType(typ)
		if e.act.pause != pauseNone {
			return e.pauseOnType(b, size, w, out)
		}
		n := min(size, len(b))
		a.rest, a.drop = size-n, false
		w.pos += n
		return nil
	case lookNames:
		if len(b) < size && !namesComplete(b) {
			if len(b) > maxNames {
				return e.broken(errMalformed, out)
			}
			a.held = append(a.held, b...)
			w.drop(&out.ToServer, len(b))
			return nil
		}
	case lookWhole:
		if len(b) < size {
			a.held = append(grown(a.held, size), b...)
			w.drop(&out.ToServer, len(b))
			return nil
		}
	}
	n := min(size, len(b))
	if err := e.clientMessage(typ, b[:n], size); err != nil {
		return e.broken(err, out)
	}
	if e.act.pass() && e.act.pause == pauseNone {
		a.rest, a.drop = size-n, false
		w.pos += n
		return nil
	}
	w.flush(&out.ToServer)
	if e.act.pause != pauseNone && !e.act.forget {
		// Looked at again after the pause, when in may be gone.
		a.held = append(a.held, b[:n]...)
		a.full = true
		a.rest = size - n
		w.pos += n
		w.start = w.pos
		e.emit(nil, out)
		return nil
	}
	e.emit(b[:n], out)
	a.rest, a.drop = size-n, e.act.drop || e.act.instead != nil
	w.pos += n
	w.start = w.pos
	return nil
}

// emit writes what the action puts in front, and the message or what stands for it.
func (e *Engine) emit(message []byte, out *Output) {
	for _, b := range e.act.before {
		out.ToServer.add(b)
	}
	switch {
	case e.act.instead != nil:
		out.ToServer.add(e.act.instead)
	case !e.act.drop:
		out.ToServer.add(message)
	}
	if e.act.pause != pauseNone {
		e.pause = e.act.pause
	}
}

// pauseOnType holds a message of which only the type was looked at: its header now, the rest when it is read again.
func (e *Engine) pauseOnType(b []byte, size int, w *window, out *Output) error {
	w.flush(&out.ToServer)
	n := min(size, len(b))
	e.client.held = append(e.client.held, b[:n]...)
	e.client.full, e.client.rest, e.client.drop = true, size-n, false
	w.pos += n
	w.start = w.pos
	e.emit(nil, out)
	return nil
}

// assembleFromClient goes on with a message that began in an earlier input.
func (e *Engine) assembleFromClient(w *window, out *Output) error {
	a := &e.client
	take := func(upTo int) bool {
		n := min(upTo-len(a.held), len(w.in)-w.pos)
		a.held = append(a.held, w.in[w.pos:w.pos+n]...)
		w.drop(&out.ToServer, n)
		return len(a.held) >= upTo
	}
	if len(a.held) < wire.HeaderLen && !take(wire.HeaderLen) {
		return nil
	}
	typ, size, ok := wire.Frame(a.held)
	if !ok {
		return e.refuseFrame(out)
	}
	if !e.sizeAllowed(typ, size) {
		return e.oversized(typ, size, w, out)
	}
	switch e.clientLook(typ, size) {
	case lookWhole:
		if len(a.held) == wire.HeaderLen {
			a.held = grown(a.held, size)
		}
		if !take(size) {
			return nil
		}
	case lookNames:
		if !namesComplete(a.held) && !take(min(size, maxNames)) && !namesComplete(a.held) {
			return nil
		} else if !namesComplete(a.held) {
			return e.broken(errMalformed, out)
		}
	case lookType:
	}
	a.full = true
	a.rest = size - len(a.held)
	return e.processHeld(out)
}

// processHeld looks at the message that is held, for the first time or after a pause, and hands it out.
func (e *Engine) processHeld(out *Output) error {
	a := &e.client
	typ, size, _ := wire.Frame(a.held)
	if e.clientLook(typ, size) == lookType {
		e.clientType(typ)
	} else if err := e.clientMessage(typ, a.held, size); err != nil {
		return e.broken(err, out)
	}
	if e.act.pause != pauseNone && !e.act.forget {
		e.emit(nil, out)
		return nil
	}
	a.drop = e.act.drop || e.act.instead != nil
	// The message leaves the engine as part of its memory for outputs: held is used again for the next one.
	e.emit(e.keep(a.held), out)
	a.release()
	return nil
}

// keep copies b into the memory that lives until the next call in the client's direction.
func (e *Engine) keep(b []byte) []byte {
	if len(b) > maxKept {
		// Give the buffer itself away instead of copying it.
		e.client.held = nil
		return b
	}
	at := len(e.cmem)
	e.cmem = append(e.cmem, b...)
	return e.cmem[at:]
}

// grown returns an empty-capacity-safe copy of b with room for size bytes, at most 1 MiB ahead of what has arrived: a
// length word alone must not make the proxy allocate.
func grown(b []byte, size int) []byte {
	want := min(size, 1<<20)
	if cap(b) >= want {
		return b
	}
	g := make([]byte, len(b), want)
	copy(g, b)
	return g
}

// maxNames bounds the start of a Bind that holds its two names; PostgreSQL compares 63 bytes of a name.
const maxNames = 8 << 10

// namesComplete reports whether the start of a Bind holds both of its names.
func namesComplete(b []byte) bool {
	zeros := 0
	for _, c := range b[wire.HeaderLen:] {
		if c == 0 {
			if zeros++; zeros == 2 {
				return true
			}
		}
	}
	return false
}

// resume ends a pause: the held message is looked at again, and the driver is told to go on unless that paused again.
func (e *Engine) resume(out *Output) error {
	e.pause = pauseNone
	// The client pump may still be writing what the pausing call gave it: leave that memory alone.
	e.cmem = nil
	if e.client.full {
		if err := e.processHeld(out); err != nil {
			e.lastWords(out)
			return err
		}
		e.asked, e.announceAsked, e.refused = false, false, nil
	}
	if e.pause != pauseNone {
		e.setPauseEffect(out)
		return nil
	}
	out.Effect = EffectResume
	return nil
}

func (e *Engine) setPauseEffect(out *Output) {
	switch e.pause {
	case pauseNone:
	case pauseAnnounce:
		out.Effect = EffectAnnounce
		out.Announce, out.Session = e.toAnnounce, e.session
	default:
		if out.Effect == EffectNone {
			out.Effect = EffectWait
		}
	}
}
