package wire

// Parse is a decoded Parse message; it aliases the body.
type Parse struct {
	Name []byte // "" is the unnamed statement
	SQL  []byte
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
	_, ok = w.take(4 * int(n)) // parameter types
	return p, ok && len(w) == 0
}
