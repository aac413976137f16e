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
