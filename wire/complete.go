package wire

// DecodeCommandComplete reads the command tag; it aliases body.
func DecodeCommandComplete(b []byte) (tag []byte, ok bool) {
	w := body(b)
	tag, ok = w.cstring()
	return tag, ok && len(w) == 0
}

// DecodeReadyForQuery reads the transaction state: TxIdle, TxActive or TxFailed.
func DecodeReadyForQuery(b []byte) (state byte, ok bool) {
	if len(b) != 1 {
		return 0, false
	}
	switch b[0] {
	case TxIdle, TxActive, TxFailed:
		return b[0], true
	}
	return 0, false
}
