package relay

import "github.com/fenceproxy/fenceproxy/wire"

// passClient is FromClient in mode off: every byte passes. Only what a drain has to know is kept.
func (e *Engine) passClient(in []byte, out *Output) (int, error) {
	w := window{in: in}
	for w.pos < len(in) {
		a := &e.client
		if a.rest > 0 {
			n := min(a.rest, len(in)-w.pos)
			a.rest -= n
			w.pos += n
			continue
		}
		var header [wire.HeaderLen]byte
		k := copy(header[:], a.held)
		n := copy(header[k:], in[w.pos:])
		w.pos += n
		if k+n < wire.HeaderLen {
			a.held = append(a.held, header[k:k+n]...)
			break
		}
		a.held = a.held[:0]
		typ, size, ok := wire.Frame(header[:])
		if !ok {
			err := e.refuseFrame(out)
			e.lastWords(out)
			return w.pos, err
		}
		a.rest = size - wire.HeaderLen
		e.passType(typ)
	}
	w.flush(&out.ToServer)
	return len(in), nil
}

func (e *Engine) passType(typ byte) {
	if e.phase != phaseReady {
		return
	}
	e.passed = true
	switch typ {
	case wire.FrontendQuery, wire.FrontendSync, wire.FrontendFunctionCall:
		if !(e.copyIn && typ == wire.FrontendSync) {
			e.syncs++
		}
	case wire.FrontendCopyDone, wire.FrontendCopyFail:
		e.copyIn = false
	}
}
