package wire

import (
	"bytes"
	"encoding/binary"
)

const authenticationSASL = 10

// bindingSuffix ends the names of SASL mechanisms that bind to the channel (RFC 5801, 4).
const bindingSuffix = "-PLUS"

// WithoutChannelBinding takes the body of an Authentication message. For an AuthenticationSASL that offers mechanisms with
// channel binding, changed is true and message is the whole message without them, in which left mechanisms remain. Any
// other message is to stay as it is. ok is false when it is an AuthenticationSASL that is malformed.
func WithoutChannelBinding(b []byte) (message []byte, left int, changed, ok bool) {
	w := body(b)
	if kind, has := w.uint32(); !has || kind != authenticationSASL {
		return nil, 0, false, true
	}
	message = []byte{BackendAuthentication, 0, 0, 0, 0}
	message = binary.BigEndian.AppendUint32(message, authenticationSASL)
	for {
		name, has := w.cstring()
		if !has {
			return nil, 0, false, false
		}
		if len(name) == 0 {
			return finish(append(message, 0), 0), left, changed, len(w) == 0
		}
		if bytes.HasSuffix(name, []byte(bindingSuffix)) {
			changed = true
			continue
		}
		message = append(append(message, name...), 0)
		left++
	}
}

// Kinds of Authentication messages.
const (
	AuthenticationOK           = 0
	AuthenticationSASL         = authenticationSASL
	AuthenticationSASLContinue = 11
	AuthenticationSASLFinal    = 12
)

// Authentication reads the body of an Authentication message: its kind, and what follows.
func Authentication(b []byte) (kind uint32, data []byte, ok bool) {
	w := body(b)
	kind, ok = w.uint32()
	return kind, w, ok
}

// SASLMechanisms reads the data of an AuthenticationSASL.
func SASLMechanisms(data []byte) (names []string, ok bool) {
	w := body(data)
	for {
		name, has := w.cstring()
		if !has {
			return nil, false
		}
		if len(name) == 0 {
			return names, len(w) == 0
		}
		names = append(names, string(name))
	}
}

// AppendAuthentication appends an Authentication message.
func AppendAuthentication(dst []byte, kind uint32, data []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(append(dst, BackendAuthentication, 0, 0, 0, 0), kind)
	return finish(append(dst, data...), start)
}

// AppendSASL appends an AuthenticationSASL that offers mechanisms.
func AppendSASL(dst []byte, mechanisms []string) []byte {
	var data []byte
	for _, m := range mechanisms {
		data = append(append(data, m...), 0)
	}
	return AppendAuthentication(dst, AuthenticationSASL, append(data, 0))
}

// SASLInitialResponse reads the body of the message of that name. present: there is a response, which may be empty.
// (auth-sasl.c CheckSASLAuth)
func SASLInitialResponse(b []byte) (mechanism string, response []byte, present bool, err *Error) {
	w := body(b)
	name, ok := w.cstring()
	if !ok {
		return "", nil, false, protocolViolation("invalid string in message")
	}
	response, null, ok := w.value()
	switch {
	case !ok:
		return "", nil, false, protocolViolation("insufficient data left in message")
	case len(w) > 0:
		return "", nil, false, protocolViolation("invalid message format")
	}
	return string(name), response, !null, nil
}

// AppendSASLInitialResponse appends the message of that name.
func AppendSASLInitialResponse(dst []byte, mechanism string, response []byte) []byte {
	start := len(dst)
	dst = append(append(append(dst, FrontendPassword, 0, 0, 0, 0), mechanism...), 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(response)))
	return finish(append(dst, response...), start)
}

// AppendSASLResponse appends the message of that name.
func AppendSASLResponse(dst []byte, response []byte) []byte {
	start := len(dst)
	return finish(append(append(dst, FrontendPassword, 0, 0, 0, 0), response...), start)
}
