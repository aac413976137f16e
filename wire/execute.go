package wire

// DecodeExecute reads the body of an Execute message. portal aliases body. maxRows <= 0 means all rows.
func DecodeExecute(b []byte) (portal []byte, maxRows int32, ok bool) {
	w := body(b)
	if portal, ok = w.cstring(); !ok {
		return nil, 0, false
	}
	n, ok := w.uint32()
	return portal, int32(n), ok && len(w) == 0
}
