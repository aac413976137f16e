package wire

// DecodeQuery reads the body of a Query message. sql aliases body. PostgreSQL takes no byte behind the string's zero
// (postgres.c: pq_getmsgend).
func DecodeQuery(b []byte) (sql []byte, ok bool) {
	w := body(b)
	sql, ok = w.cstring()
	return sql, ok && len(w) == 0
}
