package rewrite

import (
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Fencing written by hand is left as it is, if it really is that. These forms count, with c the row token's column of the
// very row that is written and V a decimal number (also as a string) or a parameter, perhaps cast to an integer type:
//
//	a test: one of the conditions that WHERE joins by AND is c < V, c <= V, V > c, V >= c, any of these with COALESCE(c, V')
//	for c, or such a test OR c IS NULL
//	UPDATE, and MERGE ... UPDATE: a test, and c = V is assigned with the same V, or c is not assigned
//	DELETE, and MERGE ... DELETE: a test
//	ON CONFLICT DO UPDATE: as UPDATE, and V may be EXCLUDED.c as well
//	INSERT, and MERGE ... INSERT: c is among the columns
//
// A fence with a scope knows no fencing by hand: that would not tell whose the row is.
//
// With StaleRewrite such a statement runs without a guard, as it would without a proxy: the token that it checks is its
// own. An assignment without its test would be a way around, and is refused. A test of another form (c = 7, c > 3,
// c IN ..., inside OR, NOT or a subselect) is a condition like any other, and the statement is spliced.

// byHand reports whether an UPDATE, or the part of a statement that is one, does its own fencing. alone: no other table
// than the one that is written has columns there.
func (s *splicer) byHand(targets []*pg.Node, where *pg.Node, rv *pg.RangeVar, alone bool, f *rowFence) (bool, *Refusal) {
	assigned := ""
	for _, t := range targets {
		rt := t.GetResTarget()
		switch {
		case sameName(rt.GetName(), f.column):
			v := s.number(rt.GetVal(), f)
			if v == "" || assigned != "" || len(rt.Indirection) > 0 {
				return false, assignedByHand
			}
			assigned = v
		case f.scope != nil && sameName(rt.GetName(), f.scope.column):
			return false, &Refusal{Code: "ZF004", Message: "the column that the fence's scope depends on cannot be changed",
				Hint: "The row would pass from one holder to another. Delete it under the one token and insert it under the other."}
		}
	}
	tests := s.tested(where, rv, alone, f)
	if assigned == "" {
		return tests != nil && f.scope == nil, nil
	}
	if f.scope != nil {
		return false, scopedByHand
	}
	for _, t := range tests {
		if t == assigned {
			return true, nil
		}
	}
	return false, assignedByHand
}

var assignedByHand = &Refusal{
	Code:    "ZF004",
	Message: "the row token's column is assigned without a test that fences by it",
	Hint:    "Leave the column to fenceproxy, or write: SET column = 34 ... WHERE ... AND column < 34, with the same number or parameter.",
}

var scopedByHand = &Refusal{
	Code:    "ZF004",
	Message: "the row token's column of a fence with a scope is assigned",
	Hint:    "Leave the column to fenceproxy: it tells which row is whose.",
}

// tested returns what the conditions that are joined by AND require the column to be less than; nil if none does.
func (s *splicer) tested(where *pg.Node, rv *pg.RangeVar, alone bool, f *rowFence) (values []string) {
	if b := where.GetBoolExpr(); b.GetBoolop() == pg.BoolExprType_AND_EXPR {
		for _, c := range b.Args {
			values = append(values, s.tested(c, rv, alone, f)...)
		}
		return values
	} else if b.GetBoolop() == pg.BoolExprType_OR_EXPR && len(b.Args) == 2 {
		for i, c := range b.Args {
			n := b.Args[1-i].GetNullTest()
			if v := s.test(c, rv, alone, f); v != "" && n.GetNulltesttype() == pg.NullTestType_IS_NULL && s.isColumn(n.GetArg(), rv, alone, f) {
				return []string{v}
			}
		}
		return nil
	}
	if v := s.test(where, rv, alone, f); v != "" {
		return []string{v}
	}
	return nil
}

// test returns V of c < V and its like.
func (s *splicer) test(n *pg.Node, rv *pg.RangeVar, alone bool, f *rowFence) string {
	e := n.GetAExpr()
	if e.GetKind() != pg.A_Expr_Kind_AEXPR_OP || len(e.Name) != 1 {
		return ""
	}
	column, value := e.Lexpr, e.Rexpr
	switch e.Name[0].GetString_().GetSval() {
	case "<", "<=":
	case ">", ">=":
		column, value = value, column
	default:
		return ""
	}
	if c := column.GetCoalesceExpr(); len(c.GetArgs()) == 2 {
		column = c.Args[0]
		if !s.isColumn(column, rv, alone, f) || s.number(c.Args[1], nil) == "" {
			return ""
		}
	}
	if !s.isColumn(column, rv, alone, f) {
		return ""
	}
	return s.number(value, f)
}

// isColumn reports whether n is the column of the row that is written. A bare name is if no other table is there that it
// could mean (alone).
func (s *splicer) isColumn(n *pg.Node, rv *pg.RangeVar, alone bool, f *rowFence) bool {
	fields := n.GetColumnRef().GetFields()
	if len(fields) == 0 || !sameName(fields[len(fields)-1].GetString_().GetSval(), f.column) {
		return false
	}
	at := func(i int) string { return fields[i].GetString_().GetSval() }
	switch len(fields) {
	case 1:
		return alone
	case 2:
		if rv.Alias != nil {
			return at(0) == rv.Alias.Aliasname
		}
		return at(0) == rv.Relname
	case 3:
		return rv.Alias == nil && at(0) == rv.Schemaname && at(1) == rv.Relname
	}
	return false
}

// number returns a number or parameter in a form that is the same for the same value, EXCLUDED.c as well if f is given,
// and "" for everything else.
func (s *splicer) number(n *pg.Node, f *rowFence) string {
	if c := n.GetTypeCast(); c != nil {
		switch t := lastTwo(c.TypeName.GetNames()); {
		case t.schema != "" && t.schema != "pg_catalog", len(c.TypeName.GetArrayBounds()) > 0:
			return ""
		default:
			if t.name != "int8" && t.name != "int4" && t.name != "int2" {
				return ""
			}
		}
		n = c.Arg
	}
	switch x := n.GetNode().(type) {
	case *pg.Node_ParamRef:
		return "$" + strconv.Itoa(int(x.ParamRef.Number))
	case *pg.Node_AConst:
		s.literal = true
		v, ok := settingValue(x.AConst)
		if v = strings.TrimLeft(v, "0"); v == "" {
			v = "0"
		}
		if !ok || strings.Trim(v, "0123456789") != "" {
			return ""
		}
		return v
	case *pg.Node_ColumnRef:
		fields := x.ColumnRef.Fields
		if f != nil && len(fields) == 2 && fields[0].GetString_().GetSval() == "excluded" && sameName(fields[1].GetString_().GetSval(), f.column) {
			return "excluded"
		}
	}
	return ""
}
