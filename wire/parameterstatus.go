package wire

// DecodeParameterStatus reads the body of a ParameterStatus message. Both strings alias body.
func DecodeParameterStatus(b []byte) (name, value []byte, ok bool) {
	w := body(b)
	if name, ok = w.cstring(); !ok {
		return nil, nil, false
	}
	value, ok = w.cstring()
	return name, value, ok && len(w) == 0
}
