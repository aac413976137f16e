package rewrite

import (
	"fmt"
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// stripper takes out of a tree what is allowed to be put into it, beside the original tree, and knows nothing of how it
// got there. What it cannot explain is an error.
type stripper struct {
	rewrite bool
	perRow  bool // in this statement
	err     error
}

func (s *stripper) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// isRowCall reports whether n is fence.<name>(...).
func isRowCall(n *pg.Node, name string) bool {
	f := lastTwo(n.GetFuncCall().GetFuncname())
	return f.schema == "fence" && f.name == name
}

// isOnce: (SELECT fence.row_token('jobs/*', true)).
func isOnce(n *pg.Node) bool {
	t := n.GetSubLink().GetSubselect().GetSelectStmt().GetTargetList()
	return len(t) == 1 && isRowCall(t[0].GetResTarget().GetVal(), "row_token")
}

// isToken reports whether n is the session's token in the form that this statement should have.
func (s *stripper) isToken(n *pg.Node) bool {
	if s.perRow {
		return isRowCall(n, "row_fitting")
	}
	return isOnce(n)
}

// looksUp reports whether a WHERE is, or joins by AND, column = constant or parameter.
func looksUp(where *pg.Node) bool {
	if b := where.GetBoolExpr(); b != nil {
		return b.Boolop == pg.BoolExprType_AND_EXPR && slices.ContainsFunc(b.Args, looksUp)
	}
	e := where.GetAExpr()
	if e == nil || e.Kind != pg.A_Expr_Kind_AEXPR_OP || lastTwo(e.Name) != (tableName{"", "="}) {
		return false
	}
	for _, sides := range [][2]*pg.Node{{e.Lexpr, e.Rexpr}, {e.Rexpr, e.Lexpr}} {
		value := sides[1]
		if c := value.GetTypeCast(); c != nil {
			value = c.Arg
		}
		switch value.GetNode().(type) {
		case *pg.Node_AConst, *pg.Node_ParamRef:
			if sides[0].GetColumnRef() != nil {
				return true
			}
		}
	}
	return false
}

func isTok(n *pg.Node) bool {
	f := n.GetColumnRef().GetFields()
	return len(f) > 0 && f[len(f)-1].GetString_().GetSval() == "tok"
}

// isClaim: fence.row_claim("tok", 'jobs/*', true).
func (s *stripper) isClaim(n *pg.Node) bool {
	return isRowCall(n, "row_claim") && len(n.GetFuncCall().Args) == 3 && isTok(n.GetFuncCall().Args[0])
}

func (s *stripper) isCheck(n *pg.Node) bool {
	if s.rewrite && s.perRow {
		return isRowCall(n, "row_fits") && len(n.GetFuncCall().Args) == 3 && isTok(n.GetFuncCall().Args[0])
	}
	if s.rewrite {
		e := n.GetAExpr()
		return len(e.GetName()) == 2 && lastTwo(e.GetName()) == tableName{"pg_catalog", "<="} && isOnce(e.GetRexpr()) &&
			len(e.GetLexpr().GetCoalesceExpr().GetArgs()) == 2 && isTok(e.GetLexpr().GetCoalesceExpr().GetArgs()[0])
	}
	if s.perRow {
		t := n.GetNullTest()
		return t.GetNulltesttype() == pg.NullTestType_IS_NOT_NULL && s.isClaim(t.GetArg())
	}
	return isRowCall(n, "row_check") && isTok(n.GetFuncCall().Args[0]) && s.isToken(n.GetFuncCall().Args[1])
}

func (s *stripper) set(got, want []*pg.Node) []*pg.Node {
	if len(got) != len(want)+1 {
		return got
	}
	t := got[0].GetResTarget()
	ok := isRowCall(t.GetVal(), "row_stamp") && isTok(t.GetVal().GetFuncCall().Args[0]) && s.isToken(t.GetVal().GetFuncCall().Args[1])
	switch {
	case s.rewrite:
		ok = s.isToken(t.GetVal()) || s.isClaim(t.GetVal()) // the latter where the token may change
	case s.perRow:
		ok = s.isClaim(t.GetVal())
	}
	if t.GetName() != "tok" || !ok {
		s.fail("SET begins with %v", t)
	}
	return got[1:]
}

// where takes the check off a condition; original is what it should be afterwards.
func (s *stripper) where(got, want *pg.Node, needed bool) *pg.Node {
	if proto.Equal(got, want) {
		if needed {
			s.fail("no check in %v", got)
		}
		return got
	}
	if want == nil && s.isCheck(got) {
		return nil
	}
	moved := func(n *pg.Node) *pg.Node {
		c := n.GetCaseExpr()
		if len(c.GetArgs()) != 1 || s.rewrite || !s.isCheck(c.Args[0].GetCaseWhen().GetResult()) || c.Defresult.GetAConst().GetBoolval().GetBoolval() {
			return nil
		}
		return c.Args[0].GetCaseWhen().Expr
	}
	if m := moved(got); m != nil {
		return m
	}
	b := proto.CloneOf(got).GetBoolExpr()
	if b.GetBoolop() != pg.BoolExprType_AND_EXPR || len(b.GetArgs()) < 2 {
		return got
	}
	last := b.Args[len(b.Args)-1]
	b.Args = b.Args[:len(b.Args)-1]
	rest := &pg.Node{Node: &pg.Node_BoolExpr{BoolExpr: b}}
	if len(b.Args) == 1 {
		rest = b.Args[0]
	}
	if m := moved(last); m != nil && proto.Equal(m, want) || s.isCheck(last) {
		return rest
	}
	return got
}

func (s *stripper) query(q *pg.SelectStmt) {
	switch {
	case q == nil:
	case q.Larg != nil:
		s.query(q.Larg)
		s.query(q.Rarg)
	case len(q.ValuesLists) > 0:
		for _, v := range q.ValuesLists {
			l := v.GetList()
			if n := len(l.Items); n == 0 || !isRowCall(l.Items[n-1], "row_token") {
				s.fail("row of VALUES without a stamp")
			} else {
				l.Items = l.Items[:n-1]
			}
		}
	default:
		if n := len(q.TargetList); n == 0 || !isOnce(q.TargetList[n-1].GetResTarget().GetVal()) {
			s.fail("SELECT without a stamp")
		} else {
			q.TargetList = q.TargetList[:n-1]
		}
	}
}

func mentions(list []*pg.Node) bool {
	return slices.ContainsFunc(list, func(n *pg.Node) bool { return n.GetResTarget().GetName() == "tok" })
}

func testsTok(m protoreflect.Message) (found bool) {
	if c, ok := m.Interface().(*pg.ColumnRef); ok && c.Fields[len(c.Fields)-1].GetString_().GetSval() == "tok" {
		return true
	}
	eachMessage(m, func(c protoreflect.Message) { found = found || testsTok(c) })
	return found
}

// node takes what was put into got, which stands where want does in the original.
func (s *stripper) node(got, want protoreflect.Message) {
	switch g := got.Interface().(type) {
	case *pg.UpdateStmt:
		w := want.Interface().(*pg.UpdateStmt)
		s.perRow = len(w.FromClause) == 0 && looksUp(w.WhereClause)
		if isRowTable(w.Relation) && len(g.TargetList) != len(w.TargetList) {
			g.TargetList = s.set(g.TargetList, w.TargetList)
			g.WhereClause = s.where(g.WhereClause, w.WhereClause, s.rewrite)
		} else if isRowTable(w.Relation) && !testsTok(want) && !mentions(w.TargetList) {
			s.fail("UPDATE is not spliced")
		}
	case *pg.DeleteStmt:
		w := want.Interface().(*pg.DeleteStmt)
		if s.perRow = len(w.UsingClause) == 0 && looksUp(w.WhereClause); isRowTable(w.Relation) {
			g.WhereClause = s.where(g.WhereClause, w.WhereClause, !testsTok(want))
		}
	case *pg.InsertStmt:
		w := want.Interface().(*pg.InsertStmt)
		s.perRow = false
		if !isRowTable(w.Relation) {
			break
		}
		if n := len(g.Cols); n > len(w.Cols) {
			if g.Cols[n-1].GetResTarget().GetName() != "tok" {
				s.fail("columns end with %v", g.Cols[n-1])
			}
			s.query(g.SelectStmt.GetSelectStmt())
			if g.Cols = g.Cols[:n-1]; len(w.Cols) == 0 {
				g.Cols = nil
			}
			if w.SelectStmt == nil {
				g.SelectStmt = nil
			}
		} else if len(w.Cols) > 0 && !mentions(w.Cols) {
			s.fail("INSERT is not spliced")
		}
		if c, o := g.OnConflictClause, w.OnConflictClause; c.GetAction() == pg.OnConflictAction_ONCONFLICT_UPDATE {
			if len(c.TargetList) != len(o.TargetList) {
				c.TargetList = s.set(c.TargetList, o.TargetList)
				c.WhereClause = s.where(c.WhereClause, o.WhereClause, s.rewrite)
			} else if !testsTok(o.ProtoReflect()) && !mentions(o.TargetList) {
				s.fail("ON CONFLICT is not spliced")
			}
		}
	case *pg.MergeStmt:
		w := want.Interface().(*pg.MergeStmt)
		s.perRow = false
		if !isRowTable(w.Relation) || len(g.MergeWhenClauses) != len(w.MergeWhenClauses) {
			break
		}
		for i := range g.MergeWhenClauses {
			s.action(g.MergeWhenClauses[i].GetMergeWhenClause(), w.MergeWhenClauses[i].GetMergeWhenClause())
		}
	}
	got.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil || !want.Has(fd):
		case fd.IsList():
			for i := 0; i < min(v.List().Len(), want.Get(fd).List().Len()); i++ {
				s.node(v.List().Get(i).Message(), want.Get(fd).List().Get(i).Message())
			}
		case want.Get(fd).Message().Descriptor() == v.Message().Descriptor():
			s.node(v.Message(), want.Get(fd).Message())
		}
		return true
	})
}

func (s *stripper) action(g, w *pg.MergeWhenClause) {
	switch g.CommandType {
	case pg.CmdType_CMD_UPDATE:
		if len(g.TargetList) != len(w.TargetList) {
			g.TargetList = s.set(g.TargetList, w.TargetList)
			g.Condition = s.where(g.Condition, w.Condition, s.rewrite)
		}
	case pg.CmdType_CMD_DELETE:
		g.Condition = s.where(g.Condition, w.Condition, false)
	case pg.CmdType_CMD_INSERT:
		if n := len(g.Values); n == len(w.Values)+1 {
			if !isRowCall(g.Values[n-1], "row_token") {
				s.fail("MERGE INSERT without a stamp")
			}
			g.Values = g.Values[:n-1]
			if g.TargetList = g.TargetList[:len(g.TargetList)-1]; len(w.TargetList) == 0 {
				g.TargetList = nil
			}
		}
	}
}

func isRowTable(rv *pg.RangeVar) bool {
	if rv.Relpersistence == "t" || isTempSchema(rv.Schemaname) {
		return false
	}
	for _, t := range fencedTables {
		if p, _ := parsePattern(t); p.name == rv.Relname && (p.schema == "" || rv.Schemaname == "" || p.schema == rv.Schemaname) {
			return true
		}
	}
	return false
}
