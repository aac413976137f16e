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

// shortLiteral is what stands for a literal in the text that is parsed when its value does not matter: megabytes of data
// never reach the parser. Longer than any name of a setting.
const shortLiteral = 64

// appendText appends the tokens joined by blanks, and the offset of each to pos. Parsing this instead of the original
// means that what is cached for a shape is a function of its tokens alone.
func appendText(dst, sql []byte, tokens []token, short bool, pos []int32) ([]byte, []int32) {
	for i := range tokens {
		t := &tokens[i]
		pos = append(pos, int32(len(dst)))
		if s := literalStub[t.kind]; short && s != "" && t.end-t.start > shortLiteral {
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
	litString: `''`, litEscape: `E''`, litBit: `B''`, litHex: `X''`, litDollar: `$$$$`, litFloat: `1.0`,
}
