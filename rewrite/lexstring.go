package rewrite

import "bytes"

// lexString reads a string whose opening quote is at q; start is where its prefix begins.
func lexString(sql []byte, start, q int, kind tokenKind) (token, lexFailure) {
	doubled := kind != litBit && kind != litHex // '' inside
	i := q + 1
	for {
		if kind == litEscape || kind == riskyEscape {
			i, kind = escapedEnd(sql, i, kind)
		} else if n := bytes.IndexByte(sql[i:], '\''); n >= 0 {
			i += n
		} else {
			i = len(sql)
		}
		if i >= len(sql) {
			return token{}, lexOpenString
		}
		i++
		if doubled && i < len(sql) && sql[i] == '\'' {
			i++
			continue
		}
		next, fail := continued(sql, i)
		if fail != "" {
			return token{}, fail
		}
		if next < 0 {
			return token{int32(start), int32(i), kind, sql[start]}, ""
		}
		i = next
	}
}

// escapedEnd returns the offset of the next quote that no backslash escapes.
func escapedEnd(sql []byte, i int, kind tokenKind) (int, tokenKind) {
	for ; i < len(sql) && sql[i] != '\''; i++ {
		if sql[i] != '\\' {
			continue
		}
		if i++; i < len(sql) {
			if e := sql[i]; e|0x20 == 'u' || e == 'x' || e >= '0' && e <= '7' {
				kind = riskyEscape
			}
		}
	}
	return i, kind
}

// continued returns the offset behind the quote that continues the string that ended before i: quotes with nothing but
// blanks and at least one newline between them are one string (scan.l quotecontinue). -1 if the string ends here.
func continued(sql []byte, i int) (int, lexFailure) {
	newline, comment := false, false
	for i < len(sql) {
		switch c := sql[i]; {
		case class[c]&clsSpace != 0:
			newline = newline || class[c]&clsNewline != 0
			i++
		case c == '-' && i+1 < len(sql) && sql[i+1] == '-':
			comment = true
			i = skipLine(sql, i+2)
		case c == '\'' && newline && comment:
			return 0, lexStringComment
		case c == '\'' && newline:
			return i + 1, ""
		default:
			return -1, ""
		}
	}
	return -1, ""
}

// lexQuoted reads a quoted identifier whose opening quote is at q. An empty one is an error in scan.l.
func lexQuoted(sql []byte, start, q int, kind tokenKind) (token, lexFailure) {
	i := q + 1
	for {
		n := bytes.IndexByte(sql[i:], '"')
		if n < 0 {
			return token{}, lexOpenString
		}
		i += n + 1
		if i < len(sql) && sql[i] == '"' {
			i++
			continue
		}
		if i-q == 2 {
			return token{}, lexOpenString
		}
		return token{int32(start), int32(i), kind, sql[start]}, ""
	}
}
