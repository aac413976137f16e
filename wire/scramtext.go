package wire

import (
	"fmt"
	"strings"
)

// scramText walks over the attributes of a client's message. Its errors are PostgreSQL's (auth-scram.c read_attr_value,
// read_any_attr).
type scramText struct{ rest string }

func malformedScram(detail string, args ...any) *Error {
	e := protocolViolation("malformed SCRAM message")
	e.Detail = fmt.Sprintf(detail, args...)
	return e
}

// first is the next character, 0 at the end.
func (t *scramText) first() byte {
	if t.rest == "" {
		return 0
	}
	return t.rest[0]
}

func (t *scramText) skip() {
	if t.rest != "" {
		t.rest = t.rest[1:]
	}
}

func (t *scramText) comma() *Error {
	if t.first() != ',' {
		return malformedScram("Comma expected, but found character \"%s\".", shownChar(t.first()))
	}
	t.skip()
	return nil
}

// value takes the value of the attribute that must come next, and the comma behind it.
func (t *scramText) value(name byte) (string, *Error) {
	if t.first() != name {
		return "", malformedScram("Expected attribute \"%c\" but found \"%s\".", name, shownChar(t.first()))
	}
	_, value, err := t.any()
	return value, err
}

// any takes the attribute that comes next.
func (t *scramText) any() (name byte, value string, err *Error) {
	name = t.first()
	switch {
	case name == 0:
		return 0, "", malformedScram("Attribute expected, but found end of string.")
	case name|0x20 < 'a' || name|0x20 > 'z':
		return 0, "", malformedScram("Attribute expected, but found invalid character \"%s\".", shownChar(name))
	}
	t.skip()
	if t.first() != '=' {
		return 0, "", malformedScram("Expected character \"=\" for attribute \"%c\".", name)
	}
	t.skip()
	value, t.rest, _ = strings.Cut(t.rest, ",")
	return name, value, nil
}

// printable reports whether a nonce holds what it may hold (RFC 5802, 7).
func printable(nonce string) bool {
	for i := range len(nonce) {
		if c := nonce[i]; c < 0x21 || c > 0x7e || c == ',' {
			return false
		}
	}
	return true
}

// shownChar is sanitize_char.
func shownChar(c byte) string {
	if c >= 0x21 && c <= 0x7e {
		return string(rune(c))
	}
	return fmt.Sprintf("0x%02x", c)
}

// shownText is sanitize_str.
func shownText(s string) string {
	if len(s) > 30 {
		s = s[:30]
	}
	b := []byte(s)
	for i, c := range b {
		if c < 0x21 || c > 0x7e {
			b[i] = '?'
		}
	}
	return string(b)
}
