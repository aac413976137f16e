package rewrite

import "bytes"

// rowFolder leaves out the rows of a VALUES list that equal an earlier row of it up to their literals and parameters:
// they write the same tables and call the same functions. So a bulk INSERT costs the parser one row, and texts with
// different numbers of rows share a shape. Rows that call set_config stay: there the literals decide.
type rowFolder struct {
	state  rowState
	depth  int
	open   int // index of the '(' of the row that is being read
	kept   [8]struct{ from, to int }
	n      int
	folded int // rows left out
	out    []foldedRow
	record bool // keep out: rows are spliced
}

// foldedRow is a row that was left out.
type foldedRow struct {
	at    int32 // index of the token that follows it and the rows left out beside it
	open  int32 // offset of its opening parenthesis
	close int32 // and of its closing one
}

type rowState uint8

const (
	rowsNone   rowState = iota
	rowsValues          // behind VALUES
	rowsInside          // inside the parentheses of a row
	rowsAfter           // behind a row
	rowsComma           // behind the comma after a row
)

// watches reports whether push has anything to do for the token.
func (f *rowFolder) watches(t token) bool {
	return f.state != rowsNone || t.kind == word && t.end-t.start == int32(len("values")) && t.c|0x20 == 'v'
}

// expectsRow reports whether an opening parenthesis begins a row.
func (f *rowFolder) expectsRow() bool { return f.state == rowsValues || f.state == rowsComma }

// push looks at the last token, and takes the row off again that it has completed if an equal one is there already.
func (f *rowFolder) push(sql []byte, tokens []token) []token {
	if f.state == rowsNone {
		f.start(sql, tokens)
		return tokens
	}
	t := tokens[len(tokens)-1]
	last := len(tokens) - 1
	switch f.state {
	case rowsValues, rowsComma:
		if t.is('(') {
			f.state, f.depth, f.open = rowsInside, 1, last
			return tokens
		}
	case rowsAfter:
		if t.is(',') {
			f.state = rowsComma
			return tokens
		}
	case rowsInside:
		if t.kind != punct {
			return tokens
		}
		switch t.c {
		case '(', '[':
			f.depth++
		case ')', ']':
			if f.depth--; f.depth == 0 {
				return f.close(sql, tokens)
			}
		}
		return tokens
	}
	f.state = rowsNone
	f.start(sql, tokens)
	return tokens
}

func (f *rowFolder) start(sql []byte, tokens []token) {
	last := len(tokens) - 1
	if tokens[last].isWord(sql, "values") && (last == 0 || !tokens[last-1].is('.')) {
		f.state, f.n = rowsValues, 0
	}
}

func (f *rowFolder) close(sql []byte, tokens []token) []token {
	f.state = rowsAfter
	row := tokens[f.open:]
	for _, k := range f.kept[:f.n] {
		if sameRow(sql, tokens[k.from:k.to], row) {
			f.folded++
			if f.record {
				f.out = append(f.out, foldedRow{int32(f.open - 1), row[0].start, row[len(row)-1].start})
			}
			return tokens[:f.open-1] // the comma in front of it too
		}
	}
	if f.n < len(f.kept) {
		f.kept[f.n].from, f.kept[f.n].to = f.open, len(tokens)
		f.n++
	}
	return tokens
}

func sameRow(sql []byte, a, b []token) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].kind != b[i].kind {
			return false
		}
		if a[i].isLiteral() || a[i].kind == param {
			continue
		}
		if !bytes.Equal(sql[a[i].start:a[i].end], sql[b[i].start:b[i].end]) || a[i].isSetConfig(sql) {
			return false
		}
	}
	return true
}
