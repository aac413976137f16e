package rewrite

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
)

// query adds the stamp as the last column of the query in [i, end): at the end of each list of targets, because ORDER BY
// and GROUP BY count them from the front, and not around the whole, because the types of parameters and untyped literals
// come from the columns that they are inserted into (analyze.c transformInsertStmt).
func (s *splicer) query(i, end int, scoped *scopeColumn, f *rowFence) *Refusal {
	for i < end {
		if s.word(i, "with") {
			if i = s.afterWith(i, end); i < 0 {
				return unspliceable
			}
		}
		switch {
		case s.is(i, '('):
			if r := s.query(i+1, int(s.match[i]), scoped, f); r != nil {
				return r
			}
		case s.word(i, "values"):
			for i++; s.is(i, '('); i = s.next(i) + 1 {
				if r := s.row(i, scoped, f); r != nil {
					return r
				}
				if !s.is(s.next(i), ',') {
					break
				}
			}
		case s.word(i, "select"):
			if r := s.target(i, end, scoped, f); r != nil {
				return r
			}
		case s.word(i, "table"):
			if f.scope != nil {
				return unscoped(f)
			}
			s.replace(i, 1, "SELECT *, "+f.once+" FROM")
		default:
			return unspliceable
		}
		// ORDER BY, LIMIT and the like belong to the whole; the next arm is behind a set operation.
		if i = s.find(i, end, "union", "intersect", "except"); i < 0 {
			return nil
		}
		if i++; s.word(i, "all") || s.word(i, "distinct") {
			i++
		}
	}
	return unspliceable
}

// row adds the stamp to the row of VALUES that opens at i.
func (s *splicer) row(i int, scoped *scopeColumn, f *rowFence) *Refusal {
	e := edit{token: s.match[i], rows: true, text: ", " + f.each}
	if scoped != nil {
		from, to := s.plain(s.element(i+1, int(s.match[i]), scoped.index), int(s.match[i]), scoped)
		if from < 0 || !s.is(to, ',') && !s.is(to, ')') {
			return scoped.refusal(f)
		}
		e.text, e.tail = scoped.text, scoped.tail
		e.from, e.to, e.element = int32(from), int32(to), int32(scoped.index)
	}
	s.edits = append(s.edits, e)
	return nil
}

// stampRow does to the tree what row does to the text.
func (s *splicer) stampRow(values *[]*pg.Node, scoped *scopeColumn, f *rowFence) bool {
	if scoped == nil {
		*values = append(*values, s.expression(f.each))
		return true
	}
	if scoped.index >= len(*values) {
		return false
	}
	*values = append(*values, s.scopedStamp(scoped, (*values)[scoped.index]))
	return true
}

// target adds the stamp to the targets of the SELECT at i.
func (s *splicer) target(i, end int, scoped *scopeColumn, f *rowFence) *Refusal {
	last := s.lastTarget(i, end)
	if last == i {
		return unspliceable
	}
	if scoped == nil {
		s.after(last, ", "+f.once)
		return nil
	}
	first := i + 1
	if s.word(first, "all") || s.word(first, "distinct") {
		if first++; s.word(first, "on") && s.is(first+1, '(') {
			first = s.next(first + 1)
		}
	}
	from, to := s.plain(s.element(first, last+1, scoped.index), last+1, scoped)
	behind := to
	if s.word(behind, "as") {
		behind++
	}
	if behind <= last && !s.is(behind, ',') && behind > from { // an alias
		behind = s.afterName(behind)
	}
	if from < 0 || behind <= last && !s.is(behind, ',') {
		return scoped.refusal(f)
	}
	s.edits = append(s.edits, edit{token: int32(last), after: true, text: scoped.text, from: int32(from), to: int32(to), tail: scoped.tail})
	return nil
}

// scopeColumn is the value of a new row that tells its fence.
type scopeColumn struct {
	index      int    // among the columns
	typ        string // as SQL writes it, "" if not known
	inDoubt    bool   // it is not known now
	text, tail string // what stands around the copy of the value
}

// scopeColumn finds the column. A parameter takes its type from where it stands first to be converted, so that the copy
// must be converted as the column does.
func (s *splicer) scopeColumn(names []string, rv *pg.RangeVar, f *rowFence) *scopeColumn {
	c := &scopeColumn{index: slices.IndexFunc(names, func(n string) bool { return sameName(n, f.scope.column) }), text: ", fence.row_scope_claim(NULL, " + f.scope.literal + ", "}
	if k := s.a.rows.catalog; k != nil {
		t, ok := k.Table(rv.Schemaname, rv.Relname)
		c.typ, c.inDoubt = t.typeOf(f.scope.column), ok && len(t.Columns) == 0
		s.asked = append(s.asked, taken{schema: rv.Schemaname, name: rv.Relname, known: ok, typed: f.scope.column, typ: c.typ})
	}
	if c.typ != "" {
		c.tail = "::" + c.typ
	}
	c.tail += "::pg_catalog.text)"
	return c
}

func (c *scopeColumn) refusal(f *rowFence) *Refusal {
	if c.inDoubt {
		return columnsInDoubt
	}
	return unscoped(f)
}

// scopedStamp is the stamp as a tree.
func (s *splicer) scopedStamp(c *scopeColumn, value *pg.Node) *pg.Node {
	e := s.expression(c.text[2:] + "1" + c.tail)
	cast := e.GetFuncCall().Args[2].GetTypeCast()
	if c.typ != "" {
		cast = cast.Arg.GetTypeCast()
	}
	cast.Arg = proto.CloneOf(value)
	return e
}

// element returns the first token of the n-th item of the list in [i, end), -1 without one.
func (s *splicer) element(i, end, n int) int {
	for ; n > 0; n-- {
		for !s.is(i, ',') {
			if i >= end {
				return -1
			}
			i = s.next(i)
		}
		i++
	}
	return i
}

// plain returns the tokens of a value that can be copied without being evaluated twice: a literal, a parameter of known
// type, the name of a column. from is -1 for anything else.
func (s *splicer) plain(i, end int, c *scopeColumn) (from, to int) {
	if i < 0 || i >= end {
		return -1, 0
	}
	switch t := s.tokens[i]; {
	case t.isLiteral(), t.kind == param && c.typ != "":
		return i, i + 1
	case s.word(i, "default"): // no value
	case t.kind == word || t.kind == quoted:
		for to = i + 1; s.is(to, '.') && to+1 < end; to += 2 {
		}
		return i, to
	}
	return -1, 0
}

// lastTarget returns the last token of the list of targets of the SELECT at i.
func (s *splicer) lastTarget(i, end int) int {
	for at := i + 1; ; {
		stop := s.find(at, end, "from", "into", "where", "group", "having", "window", "order", "limit", "offset", "fetch", "for",
			"union", "intersect", "except")
		switch {
		case stop < 0:
			return end - 1
		case s.word(stop, "from") && s.word(stop-1, "distinct") && stop-1 > i+1, // IS [NOT] DISTINCT FROM
			s.word(stop, "group") && s.word(stop-1, "within"):
			at = stop + 1
		default:
			return stop - 1
		}
	}
}

// afterWith returns the token behind the WITH clause at i, -1 if it is not found.
func (s *splicer) afterWith(i, end int) int {
	if i++; s.word(i, "recursive") {
		i++
	}
	for i < end {
		i = s.afterName(i)
		if s.is(i, '(') {
			i = s.next(i)
		}
		if !s.word(i, "as") {
			return -1
		}
		if i++; s.word(i, "not") {
			i++
		}
		if s.word(i, "materialized") {
			i++
		}
		if !s.is(i, '(') {
			return -1
		}
		i = s.next(i)
		if s.word(i, "search") { // ... SET name
			if i = s.find(i, end, "set"); i < 0 {
				return -1
			}
			i = s.afterName(i + 1)
		}
		if s.word(i, "cycle") { // ... USING name
			if i = s.find(i, end, "using"); i < 0 {
				return -1
			}
			i = s.afterName(i + 1)
		}
		if !s.is(i, ',') {
			return i
		}
		i++
	}
	return -1
}

// stampQuery does to the tree what query does to the text.
func (s *splicer) stampQuery(q *pg.SelectStmt, scoped *scopeColumn, f *rowFence) bool {
	switch {
	case q == nil:
		return false
	case q.Larg != nil:
		return s.stampQuery(q.Larg, scoped, f) && s.stampQuery(q.Rarg, scoped, f)
	case len(q.ValuesLists) > 0:
		for _, v := range q.ValuesLists {
			if row := v.GetList(); row == nil || !s.stampRow(&row.Items, scoped, f) {
				return false
			}
		}
	default:
		if scoped == nil {
			q.TargetList = append(q.TargetList, target("", s.expression(f.once)))
			break
		}
		if scoped.index >= len(q.TargetList) {
			return false
		}
		q.TargetList = append(q.TargetList, target("", s.scopedStamp(scoped, q.TargetList[scoped.index].GetResTarget().GetVal())))
	}
	return true
}
