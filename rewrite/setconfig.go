package rewrite

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// loneSetConfig recognises SELECT set_config('fence.token', value, local) and nothing else in the statement: the one
// query that the engine treats as a SET. Everything less plain goes through setConfig.
func (j *judge) loneSetConfig(s *pg.SelectStmt) bool {
	if len(s.TargetList) != 1 || len(s.FromClause)+len(s.DistinctClause)+len(s.GroupClause)+len(s.WindowClause)+
		len(s.ValuesLists)+len(s.SortClause)+len(s.LockingClause) > 0 || s.IntoClause != nil || s.WhereClause != nil ||
		s.HavingClause != nil || s.LimitCount != nil || s.LimitOffset != nil || s.WithClause != nil || s.Larg != nil {
		return false
	}
	call := s.TargetList[0].GetResTarget().GetVal().GetFuncCall()
	if n := lastTwo(call.GetFuncname()); n.name != "set_config" || n.schema != "" && n.schema != "pg_catalog" ||
		len(call.Args) != 3 || len(call.AggOrder) > 0 || call.AggFilter != nil || call.Over != nil || call.AggDistinct ||
		call.FuncVariadic || j.a.functions[n] {
		return false
	}
	name, ok := text(call.Args[0])
	if !ok {
		return false
	}
	if !isTokenSetting(name) {
		if !constant(call.Args[1]) || !constant(call.Args[2]) {
			return false
		}
		j.st.Kind, j.st.ChangesLexing = KindSet, changesLexing(name)
		j.liftsReadOnly(name, call.Args[1])
		j.walkNode(call.Args[1]) // a cast may run code
		j.walkNode(call.Args[2])
		return true
	}
	local := call.Args[2].GetAConst()
	if _, isBool := local.GetVal().(*pg.A_Const_Boolval); !isBool {
		return false
	}
	tok := &Token{Local: local.GetBoolval().GetBoolval()}
	if p := call.Args[1].GetParamRef(); p != nil {
		tok.Param = int(p.Number)
	} else if c := call.Args[1].GetAConst(); c.GetIsnull() { // NULL means the default
		j.st.Kind = KindResetToken
		return true
	} else if tok.Value, ok = text(call.Args[1]); !ok {
		return false
	}
	j.literal = true
	j.st.Kind, j.st.Token = KindSetToken, tok
	return true
}

// setConfig judges a call of set_config somewhere in a query. The name of the setting is in the shape, so it may decide
// here without making the text one of its own (see appendShape).
func (j *judge) setConfig(x *pg.FuncCall) {
	name, ok := "", false
	if len(x.Args) == 3 && !x.FuncVariadic {
		if name, ok = text(x.Args[0]); !ok {
			name = readOnlySetting // perhaps
		}
		j.liftsReadOnly(name, x.Args[1])
	} else {
		j.st.MayLiftReadOnly = true
	}
	if !ok || isTokenSetting(name) {
		j.st.MayChangeToken = true
	}
	if !ok || changesLexing(name) {
		j.st.ChangesLexing = true
	}
}

// liftsReadOnly: NULL for a value resets the setting.
func (j *judge) liftsReadOnly(name string, value *pg.Node) {
	if strings.EqualFold(name, readOnlySetting) {
		if _, isText := text(value); !isText {
			j.st.MayLiftReadOnly = true
		}
	}
}

// text returns the value of a string constant, also one that is cast to a type that keeps every string as it is.
func text(n *pg.Node) (string, bool) {
	if c := n.GetTypeCast(); c != nil {
		t := c.TypeName
		if n := lastTwo(t.GetNames()); n.name != "text" && n.name != "varchar" || n.schema != "" && n.schema != "pg_catalog" ||
			len(t.Typmods) > 0 || len(t.ArrayBounds) > 0 || t.Setof {
			return "", false
		}
		n = c.Arg
	}
	v, ok := n.GetAConst().GetVal().(*pg.A_Const_Sval)
	if !ok {
		return "", false
	}
	return v.Sval.Sval, true
}

// constant reports whether an argument runs no code: a literal or a parameter, cast or not.
func constant(n *pg.Node) bool {
	if c := n.GetTypeCast(); c != nil {
		n = c.Arg
	}
	return n.GetAConst() != nil || n.GetParamRef() != nil
}
