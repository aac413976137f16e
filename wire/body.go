package wire

import (
	"bytes"
	"encoding/binary"
)

// body walks over a message body. Each step returns ok == false, and leaves the walk useless, when the body is too short.
type body []byte

// cstring takes a zero-terminated string, without its zero.
func (b *body) cstring() (s []byte, ok bool) {
	i := bytes.IndexByte(*b, 0)
	if i < 0 {
		return nil, false
	}
	s = (*b)[:i:i]
	*b = (*b)[i+1:]
	return s, true
}

func (b *body) byte() (c byte, ok bool) {
	if len(*b) < 1 {
		return 0, false
	}
	c = (*b)[0]
	*b = (*b)[1:]
	return c, true
}

func (b *body) uint16() (n uint16, ok bool) {
	if len(*b) < 2 {
		return 0, false
	}
	n = binary.BigEndian.Uint16(*b)
	*b = (*b)[2:]
	return n, true
}

func (b *body) uint32() (n uint32, ok bool) {
	if len(*b) < 4 {
		return 0, false
	}
	n = binary.BigEndian.Uint32(*b)
	*b = (*b)[4:]
	return n, true
}

func (b *body) take(n int) (s []byte, ok bool) {
	if n < 0 || n > len(*b) {
		return nil, false
	}
	s = (*b)[:n:n]
	*b = (*b)[n:]
	return s, true
}

// value takes a length-prefixed value; a length of -1 is NULL, any other negative one is malformed.
func (b *body) value() (v []byte, null, ok bool) {
	n, ok := b.uint32()
	if !ok || n == 0xffffffff {
		return nil, true, ok
	}
	if n > uint32(len(*b)) {
		return nil, false, false
	}
	v, ok = b.take(int(n))
	return v, false, ok
}
