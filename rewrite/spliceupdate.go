package rewrite

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
)

// update: with StaleReject SET checks the row and stamps it, so WHERE stays as it is: an UPDATE that matches nothing
// remains one, and WHERE CURRENT OF works. With StaleRewrite WHERE leaves stale rows out.
func (s *splicer) update(u *pg.UpdateStmt, f *rowFence) *Refusal {
	hand, r := s.byHand(u.TargetList, u.WhereClause, u.Relation, len(u.FromClause) == 0, f)
	if hand || r != nil {
		return r
	}
	if clashes(u.Relation, u.FromClause) {
		return ambiguous
	}
	if f.rewrite && u.WhereClause.GetCurrentOfExpr() != nil {
		return cannotStamp("UPDATE ... WHERE CURRENT OF", currentOfHint)
	}
	f, row := f.forFew(u.Relation, u.WhereClause, u.FromClause)
	from, r := s.set(&u.TargetList, row, f)
	if r != nil || !f.rewrite {
		return r
	}
	return s.where(&u.WhereClause, len(u.ReturningList) > 0, from, s.stop(from), f.filter(row))
}

const currentOfHint = "Nothing can be added to WHERE CURRENT OF. Name the row by its key, or test the row token's column by hand."

// delete: both ways decide in WHERE. A check that raises must be evaluated for no row that WHERE leaves out, whatever the
// planner makes of it, so it stands in a CASE behind a copy of the condition; the original stays beside it for indexes
// and joins to use. A condition that may give another answer the second time is not copied but moved.
func (s *splicer) delete(d *pg.DeleteStmt, f *rowFence) *Refusal {
	if f.scope == nil && s.tested(d.WhereClause, d.Relation, len(d.UsingClause) == 0, f) != nil {
		return nil
	}
	if clashes(d.Relation, d.UsingClause) {
		return ambiguous
	}
	if d.WhereClause.GetCurrentOfExpr() != nil {
		return cannotStamp("DELETE ... WHERE CURRENT OF", currentOfHint)
	}
	f, row := f.forFew(d.Relation, d.WhereClause, d.UsingClause)
	from := s.afterRelation(d.Relation)
	end, returning := s.stop(from), len(d.ReturningList) > 0
	if f.rewrite {
		return s.where(&d.WhereClause, returning, from, end, f.filter(row))
	}
	if d.WhereClause == nil {
		return s.where(&d.WhereClause, returning, from, end, f.check(row))
	}
	body, last, r := s.condition(returning, from, end)
	if r != nil {
		return r
	}
	checked := s.expression("CASE WHEN true THEN " + f.check(row) + " ELSE false END")
	checked.GetCaseExpr().Args[0].GetCaseWhen().Expr = d.WhereClause
	if !steady(d.WhereClause) {
		s.before(body, "(CASE WHEN (")
		s.after(last, ") THEN "+f.check(row)+" ELSE false END)")
		d.WhereClause = checked
		return nil
	}
	s.before(body, "(")
	s.edits = append(s.edits, edit{token: int32(last), after: true, text: ") AND (CASE WHEN (",
		from: int32(body), to: int32(last + 1), tail: ") THEN " + f.check(row) + " ELSE false END)"})
	d.WhereClause = and(proto.CloneOf(d.WhereClause), checked)
	return nil
}

// clashes reports whether the row that is written cannot be named: a table of the same name in another schema is there.
func clashes(rv *pg.RangeVar, from []*pg.Node) bool {
	for _, n := range from {
		if j := n.GetJoinExpr(); j != nil && clashes(rv, []*pg.Node{j.Larg, j.Rarg}) {
			return true
		}
		if o := n.GetRangeVar(); o != nil && o.Alias == nil && rv.Alias == nil && o.Relname == rv.Relname && rv.Schemaname == "" {
			return true
		}
	}
	return false
}

var ambiguous = cannotStamp("a statement with two tables of one name", "Give the table that is written an alias.")

// set puts the stamp in front of the assignments and returns the token behind the first of them.
func (s *splicer) set(targets *[]*pg.Node, row string, f *rowFence) (from int, r *Refusal) {
	if len(*targets) == 0 {
		return 0, unspliceable
	}
	first := s.at((*targets)[0].GetResTarget().GetLocation())
	from = first
	set := first - 1
	if s.is(set, '(') { // (a, b) = ...
		from = s.next(set)
		set--
	}
	if !s.word(set, "set") {
		return 0, unspliceable
	}
	s.after(set, " "+quoteName(f.column)+" = "+f.stamp(row)+",")
	*targets = append([]*pg.Node{target(f.column, s.expression(f.stamp(row)))}, *targets...)
	return from, nil
}

// condition returns the first and the last token of the WHERE that is found in [from, end).
func (s *splicer) condition(returning bool, from, end int) (body, last int, r *Refusal) {
	if returning {
		if end = s.find(from, end, "returning"); end < 0 {
			return 0, 0, unspliceable
		}
	}
	w := s.find(from, end, "where")
	if w < 0 || w+1 >= end {
		return 0, 0, unspliceable
	}
	return w + 1, end - 1, nil
}

// where adds a condition to WHERE, or a WHERE.
func (s *splicer) where(clause **pg.Node, returning bool, from, end int, cond string) *Refusal {
	if *clause == nil {
		if returning {
			if end = s.find(from, end, "returning"); end < 0 {
				return unspliceable
			}
		}
		s.after(end-1, " WHERE "+cond)
		*clause = s.expression(cond)
		return nil
	}
	body, last, r := s.condition(returning, from, end)
	if r != nil {
		return r
	}
	checked := s.expression(cond)
	if (*clause).GetBoolExpr().GetBoolop() == pg.BoolExprType_OR_EXPR { // all else binds tighter than AND
		s.before(body, "(")
		cond = ") AND " + cond
	} else {
		cond = " AND " + cond
	}
	s.after(last, cond)
	*clause = and(*clause, checked)
	return nil
}
