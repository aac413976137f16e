package wire

// DecodeFunctionCall reads which function a FunctionCall message names: the first thing in its body.
func DecodeFunctionCall(b []byte) (oid uint32, ok bool) {
	w := body(b)
	return w.uint32()
}
