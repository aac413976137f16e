package wire

import "encoding/binary"

// Bind is a decoded Bind message; it aliases the body.
type Bind struct {
	Portal    []byte // "" is the unnamed portal
	Statement []byte // "" is the unnamed statement
	formats   []byte
	values    []byte // length-prefixed, checked by DecodeBind
	n         int
}

// DecodeBind reads the body of a Bind message. All of it is checked: the number of formats as PostgreSQL does
// (postgres.c exec_bind_message: none, one for all, or one each), every length, and that nothing follows.
func DecodeBind(b []byte) (m Bind, ok bool) {
	w := body(b)
	if m.Portal, ok = w.cstring(); !ok {
		return m, false
	}
	if m.Statement, ok = w.cstring(); !ok {
		return m, false
	}
	nf, ok := w.uint16()
	if !ok {
		return m, false
	}
	if m.formats, ok = w.take(2 * int(nf)); !ok {
		return m, false
	}
	n, ok := w.uint16()
	if !ok || (nf > 1 && nf != n) {
		return m, false
	}
	m.n = int(n)
	all := w
	for range m.n {
		if _, _, ok := w.value(); !ok {
			return m, false
		}
	}
	m.values = all[:len(all)-len(w)]
	nr, ok := w.uint16()
	if !ok {
		return m, false
	}
	_, ok = w.take(2 * int(nr))
	return m, ok && len(w) == 0
}

// Params is the number of parameters.
func (m *Bind) Params() int { return m.n }

// Param is the i'th parameter, counted from 0, as it is in the message. ok is false when there is no such parameter.
func (m *Bind) Param(i int) (value []byte, null, ok bool) {
	if i < 0 || i >= m.n {
		return nil, false, false
	}
	w := body(m.values)
	for range i {
		w.value()
	}
	return w.value()
}

// Binary reports whether the i'th parameter, counted from 0, is in binary format.
func (m *Bind) Binary(i int) bool {
	switch {
	case len(m.formats) == 0 || i < 0 || i >= m.n:
		return false
	case len(m.formats) == 2:
		i = 0
	}
	return binary.BigEndian.Uint16(m.formats[2*i:]) != 0
}
