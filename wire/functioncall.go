package wire

// DecodeFunctionCall reads the OID of the function from the body of a FunctionCall message. The arguments are not
// looked at: which function it is decides.
func DecodeFunctionCall(b []byte) (oid uint32, ok bool) {
	w := body(b)
	return w.uint32()
}
