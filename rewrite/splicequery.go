package rewrite

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
)

// query adds the stamp as the last column of the query in [i, end): at the end of each list of targets, because ORDER BY
// and GROUP BY count them from the front, and not around the whole, because the types of parameters and untyped literals
// come from the columns that they are inserted into (analyze.c transformInsertStmt).
func (s *splicer) query(i, end, scoped int, f *rowFence) *Refusal {
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
			if f.scope != nil {
				return unscoped(f)
			}
			last := s.lastTarget(i, end)
			if last == i {
				return unspliceable
			}
			s.after(last, ", "+f.once)
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
func (s *splicer) row(i, scoped int, f *rowFence) *Refusal {
	e := edit{token: s.match[i], rows: true, text: ", " + f.each}
	if f.scope != nil {
		// The stamp depends on another value of the row, which must be plain: a number or a string. A parameter would
		// take its type from the copy and not from its column.
		at := s.element(i, scoped)
		if at < 0 {
			return unscoped(f)
		}
		e.text, e.tail = ", fence.row_new(fence.row_scope("+f.scope.literal+", ", "::pg_catalog.text))"
		e.from, e.to, e.element = int32(at), int32(at+1), int32(scoped)
	}
	s.edits = append(s.edits, e)
	return nil
}

// stampRow does to the tree what row does to the text.
func (s *splicer) stampRow(values *[]*pg.Node, scoped int, f *rowFence) bool {
	if f.scope == nil {
		*values = append(*values, s.expression(f.each))
		return true
	}
	if scoped >= len(*values) {
		return false
	}
	e := s.expression("fence.row_new(fence.row_scope(" + f.scope.literal + ", 1::pg_catalog.text))")
	e.GetFuncCall().Args[0].GetFuncCall().Args[1].GetTypeCast().Arg = proto.CloneOf((*values)[scoped])
	*values = append(*values, e)
	return true
}

// element returns the token of the n-th value of a row if that is a single literal, -1 otherwise.
func (s *splicer) element(open, n int) int {
	i := open + 1
	for ; n > 0; n-- {
		for !s.is(i, ',') {
			if i >= int(s.match[open]) {
				return -1
			}
			i = s.next(i)
		}
		i++
	}
	if t := s.tokens[i]; t.isLiteral() && (s.is(i+1, ',') || s.is(i+1, ')')) {
		return i
	}
	return -1
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
func (s *splicer) stampQuery(q *pg.SelectStmt, scoped int, f *rowFence) bool {
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
		q.TargetList = append(q.TargetList, target("", s.expression(f.once)))
	}
	return true
}
