package rewrite

import "bytes"

// listFolder leaves out the elements of a long list in brackets, IN (1, 2, 3, ...), ARRAY[$1, $2, ...] or f('a', 'b', ...),
// that equal one of the first elements of that list up to their literals and parameters: they run the same code. Only
// lists that begin right behind their bracket count, and only elements that are a literal or a parameter, with a sign or
// a cast perhaps. The first keptElements stay: gram.y has rules for one element (float(1)), for two ((1, 2) OVERLAPS ...)
// and functions that are judged by three arguments (set_config), but none that tells a longer list from a longer one. A
// row of VALUES is no such list: its width must stay what it is, see splicer.insert.
type listFolder struct {
	active bool
	from   int // index of the first token of the element that is being read
	n      int // elements read, those left out not counted
	kept   [keptElements]struct{ from, to int }
}

const keptElements = 16

// push looks at the last token, an opening bracket or, while a list is being read, any punctuation mark. row says that an opening parenthesis is that of a row of VALUES.
func (f *listFolder) push(sql []byte, tokens []token, row bool) []token {
	last := len(tokens) - 1
	t := tokens[last]
	switch t.c {
	case '(', '[':
		f.active, f.from, f.n = !row, last+1, 0
	case ',':
		if f.active && f.element(sql, tokens, last) {
			return tokens[:f.from] // the comma in front of it stays for the next
		}
		f.from = last + 1
	case ')', ']':
		if f.active && f.n > 0 && f.element(sql, tokens, last) {
			tokens = append(tokens[:f.from-1], t)
		}
		f.active = false
	case ':':
		f.active = f.active && t.end-t.start == 2 // ::
	default:
		f.active = false
	}
	return tokens
}

// element ends the element in front of tokens[to] and reports whether it is to be left out.
func (f *listFolder) element(sql []byte, tokens []token, to int) bool {
	e := tokens[f.from:to]
	if !simpleElement(e) {
		f.active = false
		return false
	}
	if f.n < len(f.kept) {
		f.kept[f.n].from, f.kept[f.n].to = f.from, to
		f.n++
		return false
	}
	for _, k := range f.kept {
		if sameElement(sql, tokens[k.from:k.to], e) {
			return true
		}
	}
	return false
}

// simpleElement: [sign] (literal | parameter) [:: word].
func simpleElement(e []token) bool {
	if len(e) > 0 && e[0].kind == operator && e[0].end-e[0].start == 1 && (e[0].c == '-' || e[0].c == '+') {
		e = e[1:]
	}
	if len(e) != 1 && len(e) != 3 || !e[0].isLiteral() && e[0].kind != param {
		return false
	}
	return len(e) == 1 || e[1].kind == punct && e[1].c == ':' && e[2].kind == word
}

func sameElement(sql []byte, a, b []token) bool {
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
		if !bytes.Equal(sql[a[i].start:a[i].end], sql[b[i].start:b[i].end]) {
			return false
		}
	}
	return true
}
