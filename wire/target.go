package wire

// What a Describe or Close message names.
const (
	TargetStatement = 'S'
	TargetPortal    = 'P'
)

// DecodeDescribe reads the body of a Describe message. name aliases body.
func DecodeDescribe(b []byte) (target byte, name []byte, ok bool) { return decodeTarget(b) }

// DecodeClose reads the body of a Close message. name aliases body.
func DecodeClose(b []byte) (target byte, name []byte, ok bool) { return decodeTarget(b) }

func decodeTarget(b []byte) (target byte, name []byte, ok bool) {
	w := body(b)
	if target, ok = w.byte(); !ok || (target != TargetStatement && target != TargetPortal) {
		return 0, nil, false
	}
	name, ok = w.cstring()
	return target, name, ok && len(w) == 0
}
