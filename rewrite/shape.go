package rewrite

// appendShape appends what the grammar sees of a text: literals as their kind, everything else as written, blanks and
// comments dropped. Two texts of one shape have the same tree up to the values of literals. Each token is either one
// byte below 0x10 or text that starts higher and ends with NUL, so shapes cannot run into each other. Two literals stay
// as written: the escape character of U&"..." and the name of the setting in set_config.
func appendShape(dst, sql []byte, tokens []token) []byte {
	keep := false // inside the first argument of set_config
	for i := range tokens {
		t := tokens[i]
		switch {
		case t.isLiteral() && !keep && (i == 0 || !tokens[i-1].isWord(sql, "uescape")):
			dst = append(dst, byte(t.kind))
		case t.kind == nchar: // differs from a type name n in front of a string
			dst = append(dst, byte(ncharMark))
		case t.end-t.start == 1:
			dst = append(dst, t.c, 0)
			keep = keep && t.c != ','
		default:
			dst = append(dst, sql[t.start:t.end]...)
			dst = append(dst, 0)
			keep = keep || t.isSetConfig(sql)
		}
	}
	return dst
}

// hasLiterals reports whether other texts may share the shape.
func hasLiterals(tokens []token) bool {
	for i := range tokens {
		if tokens[i].isLiteral() {
			return true
		}
	}
	return false
}

// shortLiteral is the longest literal that is parsed as it is, in bytes; a stub stands for longer ones, so that megabytes
// of data never reach the parser. It is longer than any name of a setting. Empty strings get the stub too: the tree does
// not tell COPY FROM ” from COPY FROM STDIN.
const shortLiteral = 64

// appendText appends the tokens joined by blanks, and the offset of each to pos. Parsing this instead of the original
// means that what is cached for a shape is a function of its tokens alone.
func appendText(dst, sql []byte, tokens []token, short bool, pos []int32) ([]byte, []int32) {
	for i := range tokens {
		t := &tokens[i]
		pos = append(pos, int32(len(dst)))
		if s := literalStub[t.kind]; short && s != "" && (t.end-t.start > shortLiteral || t.isEmptyString(sql)) &&
			(i == 0 || !tokens[i-1].isWord(sql, "uescape")) {
			dst = append(dst, s...)
		} else {
			dst = append(dst, sql[t.start:t.end]...)
		}
		if t.kind != nchar {
			dst = append(dst, ' ')
		}
	}
	return dst, pos
}

var literalStub = [punct + 1]string{
	litString: `'x'`, litEscape: `E'x'`, litBit: `B'1'`, litHex: `X'1'`, litDollar: `$$x$$`, litFloat: `1.0`,
}
