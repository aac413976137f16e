package relay

import (
	"unicode/utf8"

	"github.com/fenceproxy/fenceproxy/rewrite"
)

// analyzeBytewise reads a text in an encoding other than UTF-8 whose characters beyond ASCII hold no ASCII bytes. PostgreSQL's
// lexer treats all bytes beyond ASCII alike, as letters, so each of them stands for a letter here. Names of fenced tables
// cannot be compared that way: if one is not ASCII, the text is taken for unreadable.
func (e *Engine) analyzeBytewise(sql []byte, s rewrite.Settings) rewrite.Analysis {
	if !e.cfg.Analyzer.ASCIINames() {
		s.UnsafeEncoding = true
		return e.cfg.Analyzer.Analyze(&e.scratch, sql, s)
	}
	e.transcoded = e.transcoded[:0]
	for _, c := range sql {
		if c < utf8.RuneSelf {
			e.transcoded = append(e.transcoded, c)
		} else {
			e.transcoded = utf8.AppendRune(e.transcoded, rune(c))
		}
	}
	a := e.cfg.Analyzer.Analyze(&e.scratch, e.transcoded, s)
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
	if cap(e.transcoded) > maxKept {
		e.transcoded = nil
	}
	return a
}
