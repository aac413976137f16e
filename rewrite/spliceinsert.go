package rewrite

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// insert stamps the rows that are created, and treats ON CONFLICT DO UPDATE as the UPDATE it is: PostgreSQL has locked the
// newest version of the row by then (nodeModifyTable.c ExecOnConflictUpdate).
func (s *splicer) insert(n *pg.InsertStmt, f *rowFence) *Refusal {
	i := s.afterRelation(n.Relation)
	end := s.stop(i)
	if len(n.ReturningList) > 0 {
		if end = s.find(i, end, "returning"); end < 0 {
			return unspliceable
		}
	}
	sourceEnd := end
	if c := n.OnConflictClause; c != nil {
		if sourceEnd = s.at(c.Location); sourceEnd <= i || !s.word(sourceEnd, "on") {
			return unspliceable
		}
		if c.Action == pg.OnConflictAction_ONCONFLICT_UPDATE {
			if r := s.onConflict(c, n.Relation, end, f); r != nil {
				return r
			}
		}
	}
	return s.rows(insertion{columns: &n.Cols, source: &n.SelectStmt}, n.Relation, i, sourceEnd, f)
}

func (s *splicer) onConflict(c *pg.OnConflictClause, rv *pg.RangeVar, end int, f *rowFence) *Refusal {
	hand, r := s.byHand(c.TargetList, c.WhereClause, rv, true, f)
	if hand || r != nil {
		return r
	}
	from, r := s.set(&c.TargetList, rowOf(rv), f)
	if r != nil || !f.rewrite {
		return r
	}
	return s.where(&c.WhereClause, false, from, end, f.filter(rowOf(rv)))
}

// insertion is the part of INSERT, or of MERGE ... INSERT, that gives columns and values.
type insertion struct {
	columns *[]*pg.Node
	source  **pg.Node   // INSERT: a query; nil for DEFAULT VALUES
	values  *[]*pg.Node // MERGE: the values; empty for DEFAULT VALUES
}

func (in insertion) isDefault() bool {
	if in.source != nil {
		return *in.source == nil
	}
	return len(*in.values) == 0
}

// rows stamps what is inserted: the column is the last one in the list of columns, and its value the last one of each row.
// i is the token behind the table; the source ends at end.
func (s *splicer) rows(in insertion, rv *pg.RangeVar, i, end int, f *rowFence) *Refusal {
	if in.isDefault() {
		if !s.word(i, "default") || !s.word(i+1, "values") {
			return unspliceable
		}
		if f.scope != nil {
			return unscoped(f)
		}
		s.replace(i, 2, "("+quoteName(f.column)+") VALUES ("+f.each+")")
		*in.columns = []*pg.Node{target(f.column, nil)}
		if in.source == nil {
			*in.values = []*pg.Node{s.expression(f.each)}
			return nil
		}
		row := &pg.Node{Node: &pg.Node_List{List: &pg.List{Items: []*pg.Node{s.expression(f.each)}}}}
		*in.source = &pg.Node{Node: &pg.Node_SelectStmt{SelectStmt: &pg.SelectStmt{
			ValuesLists: []*pg.Node{row}, LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE,
		}}}
		return nil
	}
	names, r := s.columns(in, rv, f)
	if names == nil || r != nil {
		return r
	}
	if f.scope != nil && !slices.ContainsFunc(names, func(n string) bool { return sameName(n, f.scope.column) }) {
		return unscoped(f)
	}
	if len(*in.columns) > 0 {
		if !s.is(i, '(') {
			return unspliceable
		}
		s.before(int(s.match[i]), ", "+quoteName(f.column))
		i = s.next(i)
	} else {
		var list strings.Builder
		for _, n := range names {
			list.WriteString(quoteName(n) + ", ")
			*in.columns = append(*in.columns, target(n, nil))
		}
		s.after(i-1, " ("+list.String()+quoteName(f.column)+")")
	}
	*in.columns = append(*in.columns, target(f.column, nil))
	if s.word(i, "overriding") { // { SYSTEM | USER } VALUE
		i += 3
	}
	var scoped *scopeColumn
	if f.scope != nil {
		if scoped = s.scopeColumn(names, rv, f); in.starred(scoped.index + 1) {
			return unscoped(f)
		}
	}
	if in.source == nil {
		if !s.word(i, "values") || !s.is(i+1, '(') {
			return unspliceable
		}
		if r := s.row(i+1, scoped, f); r != nil {
			return r
		}
		if !s.stampRow(in.values, scoped, f) {
			return unspliceable
		}
		return nil
	}
	if r := s.query(i, end, scoped, f); r != nil {
		return r
	}
	if !s.stampQuery((*in.source).GetSelectStmt(), scoped, f) {
		return unspliceable
	}
	return nil
}

// columns returns the columns that values are given for, nil if the row token's is among them: then the rows have been
// stamped by hand. Without a list of columns the catalog knows them, and the first row how many.
func (s *splicer) columns(in insertion, rv *pg.RangeVar, f *rowFence) ([]string, *Refusal) {
	var names []string
	if len(*in.columns) > 0 {
		for _, c := range *in.columns {
			name := c.GetResTarget().GetName()
			if sameName(name, f.column) {
				return nil, f.stampedByHand()
			}
			if f.scope != nil && sameName(name, f.scope.column) && len(c.GetResTarget().Indirection) > 0 { // a part of it
				return nil, unscoped(f)
			}
			names = append(names, name)
		}
		return names, nil
	}
	width := len(in.first())
	if in.starred(width) {
		return nil, cannotStamp("INSERT of * without a list of columns", "Name the columns: INSERT INTO table (a, b) SELECT a, b FROM ...")
	}
	var t Table
	known := false
	if c := s.a.rows.catalog; c != nil {
		t, known = c.Table(rv.Schemaname, rv.Relname)
	}
	s.asked = append(s.asked, taken{schema: rv.Schemaname, name: rv.Relname, known: known, columns: slices.Clone(t.Columns[:min(width, len(t.Columns))])})
	switch {
	case known && len(t.Columns) == 0:
		return nil, columnsInDoubt
	case !known:
		return nil, cannotStamp("INSERT without a list of columns into a table that fenceproxy does not know",
			"Name the columns: INSERT INTO table (a, b) VALUES ...")
	}
	if width > len(t.Columns) || width == 0 {
		return nil, cannotStamp("INSERT of other columns than the table's", "Name the columns: INSERT INTO table (a, b) ...")
	}
	names = t.Columns[:width]
	if slices.ContainsFunc(names, func(n string) bool { return sameName(n, f.column) }) {
		return nil, f.stampedByHand()
	}
	return names, nil
}

func (f *rowFence) stampedByHand() *Refusal {
	if f.scope != nil {
		return scopedByHand
	}
	return nil
}

var columnsInDoubt = &Refusal{Code: "ZF004", Passing: true,
	Message: "the columns of the table cannot be told now: DDL may be changing them",
	Hint:    "Name the columns, INSERT INTO table (a, b) ..., or try again."}

func unscoped(f *rowFence) *Refusal {
	return &Refusal{Code: "ZF004", Message: "the fence of a new row cannot be told from this INSERT",
		Hint: "Its scope depends on column " + quoteName(f.scope.column) + ": give that column a number, a string, a parameter or another table's column."}
}

// first are the values of one row, as many as they are written.
func (in insertion) first() []*pg.Node {
	if in.source == nil {
		return *in.values
	}
	q := (*in.source).GetSelectStmt()
	for q.GetLarg() != nil {
		q = q.Larg
	}
	if len(q.GetValuesLists()) > 0 {
		return q.ValuesLists[0].GetList().GetItems()
	}
	return q.GetTargetList()
}

// starred reports whether a * is among the first n values of a row: it stands for any number of them (parse_target.c
// transformExpressionList), in VALUES too.
func (in insertion) starred(n int) bool {
	if in.source == nil {
		return starred(*in.values, n)
	}
	return starredQuery((*in.source).GetSelectStmt(), n)
}

func starredQuery(q *pg.SelectStmt, n int) bool {
	if q.GetLarg() != nil {
		return starredQuery(q.Larg, n) || starredQuery(q.Rarg, n)
	}
	return starred(q.GetTargetList(), n) || slices.ContainsFunc(q.GetValuesLists(), func(row *pg.Node) bool { return starred(row.GetList().GetItems(), n) })
}

func starred(values []*pg.Node, n int) bool {
	return slices.ContainsFunc(values[:min(n, len(values))], func(v *pg.Node) bool {
		if t := v.GetResTarget(); t != nil {
			v = t.Val
		}
		return isStar(v)
	})
}

func isStar(n *pg.Node) bool {
	if fields := n.GetColumnRef().GetFields(); len(fields) > 0 {
		return fields[len(fields)-1].GetAStar() != nil
	}
	in := n.GetAIndirection().GetIndirection()
	return len(in) > 0 && in[len(in)-1].GetAStar() != nil
}
