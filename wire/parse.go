package wire

// Parse is a decoded Parse message; it aliases the body.
type Parse struct {
	Name []byte // "" is the unnamed statement
	SQL  []byte
	oids []byte
}

// DecodeParse reads the body of a Parse message.
func DecodeParse(b []byte) (p Parse, ok bool) {
	w := body(b)
	if p.Name, ok = w.cstring(); !ok {
		return p, false
	}
	if p.SQL, ok = w.cstring(); !ok {
		return p, false
	}
	n, ok := w.uint16()
	if !ok {
		return p, false
	}
	if p.oids, ok = w.take(4 * int(n)); !ok {
		return p, false
	}
	return p, len(w) == 0
}

// Types is the number of parameter types that the client gave.
func (p Parse) Types() int { return len(p.oids) / 4 }

// RawTypes are the OIDs of those types, 4 bytes each, big endian.
func (p Parse) RawTypes() []byte { return p.oids }
