package rewrite

import "bytes"

// tokenKind classifies a token. Values below firstVerbatim stand for the token in a shape: kinds of literals, whose text
// does not matter to the grammar. All are below 0x10, where no other token's text begins.
type tokenKind uint8

const (
	litString tokenKind = iota + 1 // '...', also continued over a newline
	litEscape                      // E'...' with escapes that cannot fail (see riskyEscape)
	litBit                         // B'...'
	litHex                         // X'...'
	litDollar                      // $tag$...$tag$
	litInt                         // decimal, fits int4: the grammar's ICONST
	litFloat                       // the grammar's FCONST, also an integer that is too long for int4
	ncharMark                      // no token: stands for nchar in a shape

	firstVerbatim
	word        // identifier or keyword, not quoted
	quoted      // "..."
	uQuoted     // U&"...": the string after UESCAPE decides what it names
	uString     // U&'...': the same, and its escapes can fail
	riskyEscape // E'...' with \u, \x or octal: may be refused for its value, so its text stays in the shape
	otherInt    // 0x1F, 1_000: versions before 16 read them differently
	nchar       // the n of N'...', which the grammar reads as a word of its own
	param       // $1
	operator    // one or more operator characters
	punct       // one of , ( ) [ ] . ; : or :: := ..
)

// token is a half-open range of bytes in the text. c is its first byte.
type token struct {
	start, end int32
	kind       tokenKind
	c          byte
}

func (t token) isLiteral() bool { return t.kind < ncharMark }

func (t token) is(c byte) bool { return t.kind == punct && t.c == c && t.end-t.start == 1 }

// isWord reports whether the token is the unquoted word w, given in lower case.
func (t token) isWord(sql []byte, w string) bool {
	return t.kind == word && int(t.end-t.start) == len(w) && t.c|0x20 == w[0] && t.folds(sql, w)
}

func (t token) folds(sql []byte, w string) bool {
	for i, c := range sql[t.start:t.end] {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != w[i] {
			return false
		}
	}
	return true
}

// isEmptyString reports whether the token may be an empty string: nothing but quotes and blanks, as in a string that is
// continued over a newline.
func (t token) isEmptyString(sql []byte) bool {
	switch s := sql[t.start:t.end]; t.kind {
	case litString:
		return len(bytes.Trim(s, "' \t\n\r\f\v")) == 0
	case litEscape:
		return len(bytes.Trim(s[1:], "' \t\n\r\f\v")) == 0
	case litDollar: // $tag$$tag$
		return bytes.Equal(s[:len(s)/2], s[len(s)/2:])
	}
	return false
}

// isSetConfig reports whether the token names, or with its escapes may name, the function whose literals decide what it
// does.
func (t token) isSetConfig(sql []byte) bool {
	switch t.kind {
	case word:
		return t.isWord(sql, "set_config")
	case quoted:
		return string(sql[t.start:t.end]) == `"set_config"`
	}
	return t.kind == uQuoted
}
