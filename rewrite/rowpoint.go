package rewrite

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// forFew returns the fence for a statement with this WHERE, on its table alone, and how its row is named there. What looks
// for rows by the value of a column finds few of them, and calls for each cost less than the planning of subselects that
// call once: some 10 us each (subselect.c SS_process_sublinks, and a plan of its own).
func (f *rowFence) forFew(rv *pg.RangeVar, where *pg.Node, others []*pg.Node) (few *rowFence, row string) {
	if len(others) > 0 || !pinned(where) {
		return f, rowOf(rv)
	}
	c := *f
	c.perRow = true
	return &c, ""
}

// pinned reports whether one of the conditions that WHERE joins by AND is column = V, with a constant or a parameter for V,
// perhaps cast.
func pinned(where *pg.Node) bool {
	if b := where.GetBoolExpr(); b.GetBoolop() == pg.BoolExprType_AND_EXPR {
		return slices.ContainsFunc(b.Args, pinned)
	}
	e := where.GetAExpr()
	if e.GetKind() != pg.A_Expr_Kind_AEXPR_OP || len(e.Name) != 1 || e.Name[0].GetString_().GetSval() != "=" {
		return false
	}
	return e.Lexpr.GetColumnRef() != nil && given(e.Rexpr) || e.Rexpr.GetColumnRef() != nil && given(e.Lexpr)
}

func given(n *pg.Node) bool {
	if c := n.GetTypeCast(); c != nil {
		n = c.Arg
	}
	return n.GetAConst() != nil || n.GetParamRef() != nil
}
