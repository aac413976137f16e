package rewrite

import (
	"slices"
	"sort"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Navigation over tokens. Indexes beyond the text are no token.

func (s *splicer) matchBrackets() bool {
	s.match = make([]int32, len(s.tokens))
	var open []int32
	for i, t := range s.tokens {
		switch {
		case t.is('(') || t.is('['):
			open = append(open, int32(i))
		case t.is(')') || t.is(']'):
			if len(open) == 0 {
				return false
			}
			o := open[len(open)-1]
			open = open[:len(open)-1]
			s.match[o], s.match[i] = int32(i), o
		}
	}
	return len(open) == 0
}

// at returns the token at an offset of the tree.
func (s *splicer) at(location int32) int {
	return sort.Search(len(s.pos), func(i int) bool { return s.pos[i] >= location })
}

func (s *splicer) word(i int, w string) bool {
	return i >= 0 && i < len(s.tokens) && s.tokens[i].isWord(s.sql, w)
}

func (s *splicer) is(i int, c byte) bool { return i >= 0 && i < len(s.tokens) && s.tokens[i].is(c) }

// keyword reports whether a token is this keyword, and not a label behind a dot or AS.
func (s *splicer) keyword(i int, w string) bool {
	return s.word(i, w) && !s.is(i-1, '.') && !s.word(i-1, "as")
}

// next is the token behind i, or behind the brackets that i opens.
func (s *splicer) next(i int) int {
	if s.is(i, '(') || s.is(i, '[') {
		return int(s.match[i]) + 1
	}
	return i + 1
}

// find returns the first of the words that stands in [from, to) outside of brackets, -1 without one.
func (s *splicer) find(from, to int, words ...string) int {
	for i := from; i < to; i = s.next(i) {
		if s.tokens[i].kind == word && slices.ContainsFunc(words, func(w string) bool { return s.keyword(i, w) }) {
			return i
		}
	}
	return -1
}

// stop returns the end of the statement, or of what is between brackets, that from stands in.
func (s *splicer) stop(from int) int {
	i := from
	for i < len(s.tokens) && !s.is(i, ')') && !s.is(i, ']') && !s.is(i, ';') {
		i = s.next(i)
	}
	return i
}

// afterName returns the token behind an identifier at i.
func (s *splicer) afterName(i int) int {
	if i++; s.word(i, "uescape") {
		i += 2
	}
	return i
}

// afterRelation returns the token behind the name of a table that is written, ONLY, * and alias included.
func (s *splicer) afterRelation(rv *pg.RangeVar) int {
	first := s.at(rv.Location)
	i := s.afterName(first)
	for s.is(i, '.') {
		i = s.afterName(i + 1)
	}
	if i < len(s.tokens) && s.tokens[i].kind == operator && s.sql[s.tokens[i].start] == '*' {
		i++
	}
	if s.is(first-1, '(') && s.word(first-2, "only") {
		i++
	}
	if rv.Alias != nil {
		if s.word(i, "as") {
			i++
		}
		i = s.afterName(i)
	}
	return i
}

// rowOf is how a statement names the row that it writes.
func rowOf(rv *pg.RangeVar) string {
	switch {
	case rv.Alias != nil:
		return quoteName(rv.Alias.Aliasname)
	case rv.Catalogname != "":
		return quoteName(rv.Catalogname) + "." + quoteName(rv.Schemaname) + "." + quoteName(rv.Relname)
	case rv.Schemaname != "":
		return quoteName(rv.Schemaname) + "." + quoteName(rv.Relname)
	}
	return quoteName(rv.Relname)
}
