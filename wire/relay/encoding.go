package relay

import (
	"unicode/utf8"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/wire"
)

// analyzeBytewise reads a text in an encoding other than UTF-8 whose characters beyond ASCII hold no ASCII bytes. PostgreSQL's
// lexer treats all bytes beyond ASCII alike, as letters, so each of them stands for a letter here. Names of fenced tables
// cannot be compared that way: if one is not ASCII, the text is taken for unreadable.
func (e *Engine) analyzeBytewise(sql []byte, s rewrite.Settings) rewrite.Analysis {
	if !e.analyzer.ASCIINames() {
		s.UnsafeEncoding = true
		return e.analyzer.Analyze(&e.scratch, sql, s)
	}
	e.transcoded = e.transcoded[:0]
	for _, c := range sql {
		if c < utf8.RuneSelf {
			e.transcoded = append(e.transcoded, c)
		} else {
			e.transcoded = utf8.AppendRune(e.transcoded, rune(c))
		}
	}
	a := e.analyzer.Analyze(&e.scratch, e.transcoded, s)
	e.starts = e.starts[:0]
	at, here := 0, 0 // in sql, in transcoded
	for _, start := range a.Starts {
		for here < int(start) {
			if sql[at] >= utf8.RuneSelf {
				here++
			}
			at, here = at+1, here+1
		}
		e.starts = append(e.starts, int32(at))
	}
	a.Starts = e.starts
	if len(a.Patches) > 0 {
		e.patches = mapBack(a.Patches, sql, e.patches[:0], len(e.transcoded))
		a.Patches = e.patches
	}
	if cap(e.transcoded) > maxKept {
		e.transcoded = nil
	}
	return a
}

// analyze reads a text by the settings that the server has reported, or, while something is unanswered that may change
// them, by the most careful ones.
func (e *Engine) analyze(sql []byte) rewrite.Analysis {
	s := e.settings
	if e.lexing.until > 0 {
		s = rewrite.Settings{UnsafeEncoding: true, BackslashQuotes: true}
	}
	if e.bytewise && !ascii(sql) && !s.UnsafeEncoding {
		return e.analyzeBytewise(sql, s)
	}
	return e.analyzer.Analyze(&e.scratch, sql, s)
}

// lexing is what may change how the server reads a text before it has reported so.
type lexing struct {
	until  uint64 // segment whose ReadyForQuery has to come first; 0 for none
	unsafe bool   // an unsafe value was reported once: a rollback may bring it back
	sent   bool   // sentStatement met something
}

// changesLexing: in sessions without a token, opaque statements are left out, as everywhere (I5).
func (e *Engine) changesLexing(st *rewrite.Statement) bool {
	if e.lexing.unsafe && changesTransaction(st) {
		return true
	}
	return st.ChangesLexing && (st.Effect < rewrite.EffectOpaque || e.token.maybe())
}

// noteLexing: what was just sent may change how texts are read. The server reports it in front of the ReadyForQuery that
// ends the segment and not before (guc.c ReportChangedGUCOptions, PostgreSQL 14).
func (e *Engine) noteLexing(until uint64) {
	if e.lexing.sent {
		e.lexing.until = until
	}
}

func (e *Engine) parameterStatus(body []byte) {
	name, value, ok := wire.DecodeParameterStatus(body)
	if !ok {
		return
	}
	switch string(name) {
	case "server_version":
		e.serverMajor = major(value)
	case "client_encoding":
		e.encoding = string(value)
		e.settings.UnsafeEncoding = unsafeEncoding(e.encoding)
		e.bytewise = e.encoding != "UTF8"
		e.lexing.unsafe = e.lexing.unsafe || e.settings.UnsafeEncoding
	case "standard_conforming_strings":
		e.settings.BackslashQuotes = string(value) != "on"
		e.lexing.unsafe = e.lexing.unsafe || e.settings.BackslashQuotes
	}
}

// major is the number in front of a server_version: 15.18 (Debian 15.18-1), 18beta1.
func major(version []byte) int {
	n := 0
	for _, c := range version {
		if c < '0' || c > '9' || n > 1000 {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// unsafeEncoding: a character of the encoding may hold a byte below 0x80 behind its first, so that a quote or backslash
// may be part of a character (wchar.c, the client-only encodings). Names that are not known are taken for such.
func unsafeEncoding(name string) bool {
	switch name {
	case "UTF8", "SQL_ASCII", "EUC_CN", "EUC_JP", "EUC_JIS_2004", "EUC_KR", "EUC_TW", "MULE_INTERNAL",
		"LATIN1", "LATIN2", "LATIN3", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9", "LATIN10",
		"WIN866", "WIN874", "WIN1250", "WIN1251", "WIN1252", "WIN1253", "WIN1254", "WIN1255", "WIN1256", "WIN1257", "WIN1258",
		"KOI8R", "KOI8U", "ISO_8859_5", "ISO_8859_6", "ISO_8859_7", "ISO_8859_8":
		return false
	}
	return true
}
