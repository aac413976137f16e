package relay

import "github.com/fenceproxy/fenceproxy/wire"

// longText is the size in bytes from which the analysis of a message may take milliseconds.
const longText = 16 << 10

// Long reports whether FromClient(in) would analyse a long text, so that a driver that runs other sessions in the same
// goroutine had better call it elsewhere.
func (e *Engine) Long(in []byte) bool {
	a := &e.client
	if len(a.held)+len(in) <= longText || e.cfg.Mode == ModeOff || a.full {
		return false
	}
	if len(a.held) > 0 {
		if len(a.held) < wire.HeaderLen {
			return true
		}
		typ, size, ok := wire.Frame(a.held)
		return ok && e.analyses(typ, size) && len(a.held)+len(in) >= size
	}
	for in = in[min(a.rest, len(in)):]; len(in) > longText; {
		typ, size, ok := wire.Frame(in)
		if !ok || size > len(in) {
			return false
		}
		if e.analyses(typ, size) {
			return true
		}
		in = in[size:]
	}
	return false
}

func (e *Engine) analyses(typ byte, size int) bool {
	return size > longText && (typ == wire.FrontendQuery || typ == wire.FrontendParse) && e.clientLook(typ, size) == lookWhole
}
