package rewrite

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// merge fences each action in its own WHEN condition or SET, never in ON: a stale row that does not match would be
// inserted a second time. A concurrent change of the row makes PostgreSQL choose the action again, for the new version
// (nodeModifyTable.c ExecMergeMatched).
func (s *splicer) merge(m *pg.MergeStmt, f *rowFence) *Refusal {
	if clashes(m.Relation, []*pg.Node{m.SourceRelation}) {
		return ambiguous
	}
	i := s.afterRelation(m.Relation)
	end := s.stop(i)
	if len(m.ReturningList) > 0 {
		if end = s.find(i, end, "returning"); end < 0 {
			return unspliceable
		}
	}
	var whens []int
	for at := i; ; {
		w := s.outsideCase(at, end, "when")
		if w < 0 {
			break
		}
		whens = append(whens, w)
		at = w + 1
	}
	if len(whens) != len(m.MergeWhenClauses) {
		return unspliceable
	}
	for k, w := range whens {
		stop := end
		if k+1 < len(whens) {
			stop = whens[k+1]
		}
		then := s.outsideCase(w+1, stop, "then")
		if then < 0 {
			return unspliceable
		}
		if r := s.action(m.MergeWhenClauses[k].GetMergeWhenClause(), m.Relation, w, then, stop, f); r != nil {
			return r
		}
	}
	return nil
}

// outsideCase is find for a word that CASE expressions have too.
func (s *splicer) outsideCase(from, to int, w string) int {
	depth := 0
	for i := from; i < to; i = s.next(i) {
		switch {
		case s.keyword(i, "case"):
			depth++
		case s.keyword(i, "end"):
			depth--
		case depth == 0 && s.keyword(i, w):
			return i
		}
	}
	return -1
}

// action fences WHEN ... THEN ..., whose tokens are [w, end).
func (s *splicer) action(c *pg.MergeWhenClause, rv *pg.RangeVar, w, then, end int, f *rowFence) *Refusal {
	row := rowOf(rv)
	switch c.GetCommandType() {
	case pg.CmdType_CMD_NOTHING:
		return nil
	case pg.CmdType_CMD_INSERT:
		return s.rows(insertion{columns: &c.TargetList, values: &c.Values}, rv, then+2, end, f)
	case pg.CmdType_CMD_UPDATE:
		if hand, r := s.byHand(c.TargetList, c.Condition, rv, false, f); hand || r != nil {
			return r
		}
		if _, r := s.set(&c.TargetList, row, f); r != nil || !f.rewrite {
			return r
		}
		return s.when(c, f.filter(row), w, then)
	case pg.CmdType_CMD_DELETE:
		if f.scope == nil && s.tested(c.Condition, rv, false, f) != nil {
			return nil
		}
		if f.rewrite {
			return s.when(c, f.filter(row), w, then)
		}
		return s.whenCase(c, f.check(row), w, then)
	}
	return unspliceable
}

// when adds a condition to a WHEN.
func (s *splicer) when(c *pg.MergeWhenClause, cond string, w, then int) *Refusal {
	if c.Condition == nil {
		s.after(then-1, " AND "+cond)
	} else {
		at := s.find(w+1, then, "and")
		if at < 0 {
			return unspliceable
		}
		s.before(at+1, "(")
		s.after(then-1, ") AND "+cond)
	}
	c.Condition = and(c.Condition, s.expression(cond))
	return nil
}

// whenCase puts a check that raises behind the condition of a WHEN.
func (s *splicer) whenCase(c *pg.MergeWhenClause, check string, w, then int) *Refusal {
	if c.Condition == nil {
		return s.when(c, check, w, then)
	}
	at := s.find(w+1, then, "and")
	if at < 0 {
		return unspliceable
	}
	s.before(at+1, "(CASE WHEN (")
	s.after(then-1, ") THEN "+check+" ELSE false END)")
	checked := s.expression("CASE WHEN true THEN " + check + " ELSE false END")
	checked.GetCaseExpr().Args[0].GetCaseWhen().Expr = c.Condition
	c.Condition = checked
	return nil
}
