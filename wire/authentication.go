package wire

// Kinds of Authentication messages that end or change the login.
const (
	AuthOK           = 0
	AuthSASL         = 10
	AuthSASLContinue = 11
	AuthSASLFinal    = 12
)

// DecodeAuthentication reads the kind of an Authentication message.
func DecodeAuthentication(b []byte) (kind uint32, ok bool) {
	w := body(b)
	return w.uint32()
}
