package rewrite

import "unsafe"

// Patch is a change of a text: the bytes [At, End) are replaced by Text, a copy of the bytes [From, To) and Tail.
type Patch struct {
	At, End  int32
	From, To int32
	Text     string
	Tail     string
}

const patchBytes = int(unsafe.Sizeof(Patch{}))

// len is the length of what the patch puts in.
func (p *Patch) len() int { return len(p.Text) + int(p.To-p.From) + len(p.Tail) }

// AppendSpliced appends the part [from, to) of the text that the analysis is of, patched, to dst. A part begins and ends
// where statements do: at 0, at one of Starts, at the end.
func (an Analysis) AppendSpliced(dst, sql []byte, from, to int) []byte {
	at := from
	for i := range an.Patches {
		p := &an.Patches[i]
		if int(p.At) < from || int(p.At) > to || int(p.At) == to && to < len(sql) {
			continue
		}
		dst = append(append(dst, sql[at:p.At]...), p.Text...)
		dst = append(append(dst, sql[p.From:p.To]...), p.Tail...)
		at = int(p.End)
	}
	return append(dst, sql[at:to]...)
}

// SplicedLen is the length of the whole text, patched, in bytes.
func (an Analysis) SplicedLen(sql []byte) int {
	n := len(sql)
	for i := range an.Patches {
		p := &an.Patches[i]
		n += p.len() - int(p.End-p.At)
	}
	return n
}

// Shift is a place where a patched text differs from the original, in characters of the patched one, counted from 0.
type Shift struct {
	At       int // the first character that is not the client's
	Inserted int // such characters
	Dropped  int // the client's characters that they stand for
}

// AppendShifts appends the shifts of the part [from, to) to dst; chars counts characters as PostgreSQL does in the
// session's encoding, and start is the number of characters in front of the part in the text that is sent.
func (an Analysis) AppendShifts(dst []Shift, sql []byte, from, to, start int, chars func([]byte) int) []Shift {
	at := from
	for i := range an.Patches {
		p := &an.Patches[i]
		if int(p.At) < from || int(p.At) > to || int(p.At) == to && to < len(sql) {
			continue
		}
		start += chars(sql[at:p.At])
		n := len(p.Text) + chars(sql[p.From:p.To]) + len(p.Tail) // ours is ASCII, but for names
		if !isASCII(p.Text) || !isASCII(p.Tail) {
			n = chars([]byte(p.Text)) + chars(sql[p.From:p.To]) + chars([]byte(p.Tail))
		}
		dst = append(dst, Shift{start, n, chars(sql[p.At:p.End])})
		start += n
		at = int(p.End)
	}
	return dst
}

// Original maps a position in the patched text, counted from 1 as in PostgreSQL's errors, to the client's text. ok is
// false for a position in what was put in.
func Original(shifts []Shift, position int) (original int, ok bool) {
	shift := 0
	for _, s := range shifts {
		switch {
		case position-1 >= s.At+s.Inserted:
			shift += s.Inserted - s.Dropped
		case position-1 >= s.At:
			return 0, false
		}
	}
	return position - shift, true
}

// patch lays edits over a text: sc.tokens and sc.rows are the text's.
func (sc *Scratch) patch(sql []byte, edits []edit) {
	out := sc.rows.out
	for i := range edits {
		e := &edits[i]
		p := Patch{At: sc.tokens[e.token].start, Text: e.text, Tail: e.tail}
		if e.after {
			p.At = sc.tokens[e.token].end
		}
		p.End = p.At
		if e.drop > 0 {
			p.End = sc.tokens[e.token+e.drop-1].end
		}
		if e.to > e.from {
			p.From, p.To = sc.tokens[e.from].start, sc.tokens[e.to-1].end
		}
		sc.patches = append(sc.patches, p)
		if !e.rows {
			continue
		}
		for len(out) > 0 && out[0].at <= e.token+1 {
			if out[0].at == e.token+1 {
				p.At, p.End = out[0].close, out[0].close
				if e.to > e.from {
					p.From, p.To = rowElement(sql, int(out[0].open), int(e.element))
				}
				sc.patches = append(sc.patches, p)
			}
			out = out[1:]
		}
	}
}

// rowElement finds the n-th value of the row that opens at an offset.
func rowElement(sql []byte, open, n int) (from, to int32) {
	depth := 0
	for i := open + 1; i < len(sql); {
		i, _ = skipBlank(sql, i)
		t, fail := lexToken(sql, i)
		if fail != "" {
			break
		}
		ends := depth == 0 && (t.is(',') || t.is(')'))
		switch {
		case ends && n == 0:
			return from, to
		case t.is('(') || t.is('['):
			depth++
		case t.is(')') || t.is(']'):
			depth--
		case ends:
			n--
		}
		if i = int(t.end); n == 0 && !ends {
			if to = t.end; from == 0 {
				from = t.start
			}
		}
	}
	return 0, 0
}
