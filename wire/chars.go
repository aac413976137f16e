package wire

import "unicode/utf8"

// Chars counts the characters of text, in which PostgreSQL counts error positions, under the encoding named as
// ParameterStatus names it. An encoding that is not known here counts bytes; its ok is false unless text is ASCII.
// A malformed character counts as PostgreSQL's pg_mblen takes it: by its first byte, at most to the end of text.
func Chars(text []byte, encoding string) (n int, ok bool) {
	var width func(c byte) int
	switch encoding {
	case "UTF8":
		width = utf8Width
	case "EUC_CN":
		width = func(c byte) int { return 1 + int(c>>7) }
	case "EUC_JP", "EUC_JIS_2004", "EUC_KR":
		width = eucWidth
	case "EUC_TW":
		width = eucTWWidth
	case "SQL_ASCII", "LATIN1", "LATIN2", "LATIN3", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9", "LATIN10",
		"WIN866", "WIN874", "WIN1250", "WIN1251", "WIN1252", "WIN1253", "WIN1254", "WIN1255", "WIN1256", "WIN1257", "WIN1258",
		"KOI8R", "KOI8U", "ISO_8859_5", "ISO_8859_6", "ISO_8859_7", "ISO_8859_8":
		return len(text), true
	default:
		for _, c := range text {
			if c >= utf8.RuneSelf {
				return len(text), false
			}
		}
		return len(text), true
	}
	for i := 0; i < len(text); n++ {
		i += width(text[i])
	}
	return n, true
}

// wchar.c pg_utf_mblen
func utf8Width(c byte) int {
	switch {
	case c < 0x80:
		return 1
	case c&0xe0 == 0xc0:
		return 2
	case c&0xf0 == 0xe0:
		return 3
	case c&0xf8 == 0xf0:
		return 4
	}
	return 1
}

const (
	ss2 = 0x8e
	ss3 = 0x8f
)

// wchar.c pg_euc_mblen
func eucWidth(c byte) int {
	switch {
	case c == ss2:
		return 2
	case c == ss3:
		return 3
	}
	return 1 + int(c>>7)
}

// wchar.c pg_euctw_mblen
func eucTWWidth(c byte) int {
	switch {
	case c == ss2:
		return 4
	case c == ss3:
		return 3
	}
	return 1 + int(c>>7)
}
