package wire

// DataRow is a decoded DataRow message; it aliases the body.
type DataRow struct {
	values []byte
	n      int
}

// DecodeDataRow reads the body of a DataRow message and checks every length.
func DecodeDataRow(b []byte) (r DataRow, ok bool) {
	w := body(b)
	n, ok := w.uint16()
	if !ok {
		return r, false
	}
	r.n, r.values = int(n), w
	for range r.n {
		if _, _, ok := w.value(); !ok {
			return r, false
		}
	}
	return r, len(w) == 0
}

// Columns is the number of columns.
func (r *DataRow) Columns() int { return r.n }

// Column is the i'th column, counted from 0. ok is false when there is no such column.
func (r *DataRow) Column(i int) (value []byte, null, ok bool) {
	if i < 0 || i >= r.n {
		return nil, false, false
	}
	w := body(r.values)
	for range i {
		w.value()
	}
	return w.value()
}
