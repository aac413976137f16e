package relay

import (
	"io"
	"sync"
)

// bufferSize is what one read takes. Measured: larger buffers gain nothing for small transactions, and cost memory for
// each idle session.
const bufferSize = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// writer writes segments to one leg. It belongs to one goroutine.
type writer struct{ scratch []byte }

// write writes the segments in order, as one write when they are small: an injected message and its neighbours must
// not travel in packets of their own. Copying is cheaper than writev for what a batch holds.
func (w *writer) write(dst io.Writer, s *Segments) error {
	switch len(s.List) {
	case 0:
		return nil
	case 1:
		_, err := dst.Write(s.List[0])
		return err
	}
	w.scratch = w.scratch[:0]
	for _, b := range s.List {
		if len(w.scratch)+len(b) > 2*bufferSize {
			if err := w.flush(dst); err != nil {
				return err
			}
			if len(b) > bufferSize {
				if _, err := dst.Write(b); err != nil {
					return err
				}
				continue
			}
		}
		w.scratch = append(w.scratch, b...)
	}
	return w.flush(dst)
}

func (w *writer) flush(dst io.Writer) error {
	if len(w.scratch) == 0 {
		return nil
	}
	_, err := dst.Write(w.scratch)
	w.scratch = w.scratch[:0]
	return err
}

// appendTo copies the segments out of memory that is not the driver's.
func (s *Segments) appendTo(dst []byte) []byte {
	for _, b := range s.List {
		dst = append(dst, b...)
	}
	return dst
}
