package rewrite

import (
	"bytes"
	"slices"
	"unicode"
)

// unreadable are the plans of texts that cannot be read for one reason, by the words that are in them: none of these, words of
// DDL, words that rows are written with, both.
type unreadable [4]*Plan

func (a *Analyzer) newUnreadable(why string) (u unreadable) {
	for i := range u {
		c, refuse := CatalogSame, (*Refusal)(nil)
		if i&1 != 0 {
			c = CatalogColumns
		}
		if i&2 != 0 && a.rows.scoped() {
			refuse = unreadableRows
		}
		u[i] = a.unknownPlan(why, c, refuse)
	}
	return u
}

// unreadableRows: guards tell only that the session has a token, and a scope is kept by what is spliced.
var unreadableRows = &Refusal{
	Code:    "ZF004",
	Message: "fenceproxy cannot read this statement, and so not tell whose rows it writes",
	Hint: "It is too long (limits.max_parse_bytes), has syntax that the proxy does not know, or can be read in two ways " +
		"(client_encoding, standard_conforming_strings). Write it in a plainer form.",
}

func (a *Analyzer) unreadable(why string, sql []byte) *Plan {
	i := 0
	if hasDDL(sql) {
		i |= 1
	}
	if hasWord(sql, wordsOfRows) {
		i |= 2
	}
	return a.unknown[why][i]
}

// unknownPlan is the plan of a text that cannot be read: one statement that may do anything.
func (a *Analyzer) unknownPlan(why string, c CatalogChange, refuse *Refusal) *Plan {
	p := &Plan{Failure: why}
	p.add(Statement{
		Effect: EffectUnknown, Fences: a.tables.all, MayChangeToken: true, ChangesLexing: true, Catalog: c, NewWays: c != CatalogSame, Verb: "UNKNOWN", Refuse: refuse,
	}, 0)
	return p
}

var (
	wordsOfDDL  = [][]byte{[]byte("create"), []byte("alter"), []byte("drop"), []byte("import"), []byte("execute"), []byte("call")}
	wordsOfRows = [][]byte{[]byte("insert"), []byte("update"), []byte("delete"), []byte("merge"), []byte("copy"), []byte("truncate")}
)

// hasDDL reports whether a text has a word in it that DDL begins with, or what runs such.
func hasDDL(text []byte) bool { return hasWord(text, wordsOfDDL) }

// hasWord reports whether one of the words is in a text, whatever it stands for. A keyword has no letter on either side,
// also where the text is not what it is taken for: bytes beyond ASCII are letters to PostgreSQL (scan.l ident_start).
func hasWord(text []byte, words [][]byte) bool {
	for word := range bytes.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if slices.ContainsFunc(words, func(w []byte) bool { return len(w) == len(word) && bytes.EqualFold(w, word) }) {
			return true
		}
	}
	return false
}
