package rewrite

import "bytes"

// The lexer finds token boundaries as PostgreSQL's scan.l does with standard_conforming_strings on, in an encoding that
// keeps ASCII bytes to themselves. It decodes nothing. Whatever scan.l refuses, and the few things that server versions
// or libpg_query read differently, are failures: the text is EffectUnknown then.

// lexFailure says why a text has no tokens; empty means none. Texts for the log: constants, no part of the SQL.
type lexFailure string

const (
	lexOpenString    lexFailure = "unterminated or empty quoted text"
	lexOpenComment   lexFailure = "unterminated comment"
	lexStringComment lexFailure = "comment inside a continued string" // libpg_query refuses what servers accept
	lexNumber        lexFailure = "malformed number or parameter"
	lexCharacter     lexFailure = "character outside SQL"
	lexOperator      lexFailure = "operator too long"
)

const (
	clsSpace = 1 << iota
	clsNewline
	clsWordStart // ident_start
	clsWordCont  // ident_cont
	clsDigit
	clsOperator // op_chars
	clsSticky   // an operator with one of these keeps a trailing + or -
	clsPunct
)

var class = func() (t [256]uint8) {
	for c := range t {
		b := byte(c)
		if b|0x20 >= 'a' && b|0x20 <= 'z' || b == '_' || b >= 0x80 {
			t[c] |= clsWordStart | clsWordCont
		}
		if b >= '0' && b <= '9' {
			t[c] |= clsDigit | clsWordCont
		}
	}
	t['$'] |= clsWordCont
	for _, set := range []struct {
		chars string
		bit   uint8
	}{
		{" \t\n\r\f\v", clsSpace}, {"\n\r", clsNewline}, {"~!@#^&|`?+-*/%<>=", clsOperator},
		{"~!@#^&|`?%", clsSticky}, {",()[].;:", clsPunct},
	} {
		for _, c := range []byte(set.chars) {
			t[c] |= set.bit
		}
	}
	return t
}()

// skipBlank returns the offset of the next token at or after i, len(sql) if there is none.
func skipBlank(sql []byte, i int) (int, lexFailure) {
	for i < len(sql) {
		c := sql[i]
		switch {
		case class[c]&clsSpace != 0:
			i++
		case c == '-' && i+1 < len(sql) && sql[i+1] == '-':
			i = skipLine(sql, i+2)
		case c == '/' && i+1 < len(sql) && sql[i+1] == '*':
			if i = skipComment(sql, i); i < 0 {
				return 0, lexOpenComment
			}
		default:
			return i, ""
		}
	}
	return i, ""
}

func skipLine(sql []byte, i int) int {
	for i < len(sql) && class[sql[i]]&clsNewline == 0 {
		i++
	}
	return i
}

// skipComment returns the offset behind the nested comment that starts at i, -1 if it does not end.
func skipComment(sql []byte, i int) int {
	for depth := 0; i+1 < len(sql); {
		switch {
		case sql[i] == '/' && sql[i+1] == '*':
			depth++
			i += 2
		case sql[i] == '*' && sql[i+1] == '/':
			i += 2
			if depth--; depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return -1
}

// lexToken reads the token that starts at i, where skipBlank stopped.
func lexToken(sql []byte, i int) (token, lexFailure) {
	c := sql[i]
	switch cls := class[c]; {
	case cls&clsWordStart != 0:
		if i+1 < len(sql) && (sql[i+1] == '\'' || sql[i+1] == '&') {
			if t, ok, fail := lexPrefixed(sql, i); ok || fail != "" {
				return t, fail
			}
		}
		e := i + 1
		for e < len(sql) && class[sql[e]]&clsWordCont != 0 {
			e++
		}
		return token{int32(i), int32(e), word, c}, ""
	case cls&clsPunct != 0:
		e := i + 1
		if i+1 < len(sql) {
			n := sql[i+1]
			if c == '.' && class[n]&clsDigit != 0 {
				return lexNumberToken(sql, i)
			}
			if c == ':' && (n == ':' || n == '=') || c == '.' && n == '.' {
				e++
			}
		}
		return token{int32(i), int32(e), punct, c}, ""
	case cls&clsDigit != 0:
		return lexNumberToken(sql, i)
	case cls&clsOperator != 0:
		return lexOperatorToken(sql, i)
	case c == '\'':
		return lexString(sql, i, i, litString)
	case c == '"':
		return lexQuoted(sql, i, i, quoted)
	case c == '$':
		return lexDollar(sql, i)
	}
	return token{}, lexCharacter
}

// lexPrefixed reads E” B” X” N” U&” U&""; ok is false when the word at i is no such prefix.
func lexPrefixed(sql []byte, i int) (t token, ok bool, fail lexFailure) {
	switch sql[i] {
	case 'e', 'E', 'b', 'B', 'x', 'X', 'n', 'N':
		if sql[i+1] != '\'' {
			return token{}, false, ""
		}
		switch sql[i] | 0x20 {
		case 'e':
			t, fail = lexString(sql, i, i+1, litEscape)
		case 'b':
			t, fail = lexString(sql, i, i+1, litBit)
		case 'x':
			t, fail = lexString(sql, i, i+1, litHex)
		default: // xnstart: yyless(1), the quote starts a string of its own
			t = token{int32(i), int32(i + 1), nchar, sql[i]}
		}
		return t, true, fail
	case 'u', 'U':
		if sql[i+1] != '&' || i+2 >= len(sql) {
			return token{}, false, ""
		}
		switch sql[i+2] {
		case '\'':
			t, fail = lexString(sql, i, i+2, uString)
			return t, true, fail
		case '"':
			t, fail = lexQuoted(sql, i, i+2, uQuoted)
			return t, true, fail
		}
	}
	return token{}, false, ""
}

// lexDollar reads $1 or $tag$...$tag$.
func lexDollar(sql []byte, i int) (token, lexFailure) {
	j := i + 1
	if j < len(sql) && class[sql[j]]&clsDigit != 0 {
		for j < len(sql) && class[sql[j]]&clsDigit != 0 {
			j++
		}
		if j < len(sql) && class[sql[j]]&clsWordStart != 0 { // param_junk; two tokens before PostgreSQL 15
			return token{}, lexNumber
		}
		return token{int32(i), int32(j), param, '$'}, ""
	}
	for j < len(sql) && class[sql[j]]&clsWordCont != 0 && sql[j] != '$' {
		j++
	}
	if j == len(sql) || sql[j] != '$' {
		return token{}, lexCharacter
	}
	delim := sql[i : j+1]
	n := bytes.Index(sql[j+1:], delim)
	if n < 0 {
		return token{}, lexOpenString
	}
	return token{int32(i), int32(j + 1 + n + len(delim)), litDollar, '$'}, ""
}

// maxOperatorRun bounds the look ahead: in +++... every sign is an operator of its own, found at the end of the run.
const maxOperatorRun = 256

// lexOperatorToken reads an operator. It ends before a comment, and a + or - at its end belongs to it only if it holds
// a character that no SQL-standard operator has (scan.l {operator}).
func lexOperatorToken(sql []byte, i int) (token, lexFailure) {
	e, sticky := i, false
	for ; e < len(sql) && class[sql[e]]&clsOperator != 0; e++ {
		if e-i > maxOperatorRun {
			return token{}, lexOperator
		}
		if e > i && e+1 < len(sql) && (sql[e] == '/' && sql[e+1] == '*' || sql[e] == '-' && sql[e+1] == '-') {
			break
		}
		sticky = sticky || class[sql[e]]&clsSticky != 0
	}
	if !sticky {
		for e-i > 1 && (sql[e-1] == '+' || sql[e-1] == '-') {
			e--
		}
	}
	if e-i >= maxName+1 {
		return token{}, lexOperator
	}
	return token{int32(i), int32(e), operator, sql[i]}, ""
}
