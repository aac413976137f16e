package rewrite

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// reviewed are the nodes of a raw parse tree that can stand inside a query and were looked at: either they run no code
// of the application, or visit handles them. A node that is missing here makes the statement opaque.
var reviewed = func() map[protoreflect.Name]bool {
	m := map[protoreflect.Name]bool{}
	for name := range strings.FieldsSeq(`
		Node List Integer Float Boolean String BitString A_Const
		SelectStmt InsertStmt UpdateStmt DeleteStmt MergeStmt
		A_Expr A_Star A_Indices A_Indirection A_ArrayExpr BoolExpr NullTest BooleanTest CaseExpr CaseWhen CoalesceExpr
		MinMaxExpr RowExpr SubLink TypeCast TypeName CollateClause ColumnRef ParamRef NamedArgExpr GroupingFunc GroupingSet
		SetToDefault CurrentOfExpr SQLValueFunction FuncCall WindowDef SortBy MultiAssignRef MergeSupportFunc
		XmlExpr XmlSerialize JsonFormat JsonReturning JsonValueExpr JsonIsPredicate JsonBehavior JsonOutput JsonArgument
		JsonFuncExpr JsonTablePathSpec JsonTable JsonTableColumn JsonKeyValue JsonParseExpr JsonScalarExpr JsonSerializeExpr
		JsonObjectConstructor JsonArrayConstructor JsonArrayQueryConstructor JsonAggConstructor JsonObjectAgg JsonArrayAgg
		ResTarget RangeVar Alias JoinExpr RangeSubselect RangeFunction RangeTableFunc RangeTableFuncCol RangeTableSample
		ColumnDef LockingClause WithClause CommonTableExpr CTESearchClause CTECycleClause
		InferClause IndexElem OnConflictClause MergeWhenClause IntoClause DefElem`) {
		m[protoreflect.Name(name)] = true
	}
	return m
}()

func (j *judge) walkNode(n *pg.Node) {
	if n != nil {
		j.walk(n)
	}
}

// walk visits every message of a query by reflection, so that no field is forgotten.
func (j *judge) walk(m proto.Message) { j.visit(m.ProtoReflect()) }

func (j *judge) visit(m protoreflect.Message) {
	switch x := m.Interface().(type) {
	case *pg.InsertStmt:
		j.target(x.Relation, x)
	case *pg.UpdateStmt:
		j.target(x.Relation, x)
	case *pg.DeleteStmt:
		j.target(x.Relation, x)
	case *pg.MergeStmt:
		j.target(x.Relation, x)
	case *pg.SelectStmt:
		j.write(x.IntoClause.GetRel())
		if len(x.LockingClause) > 0 {
			j.effect(EffectLock)
			j.lockedRows(x)
		}
	case *pg.FuncCall:
		j.call(x)
	case *pg.A_Expr:
		j.operator(x.Name)
	case *pg.TypeName:
		j.typeName(x)
	case *pg.SubLink:
		j.operator(x.OperName)
	case *pg.SortBy:
		j.operator(x.UseOp)
	case *pg.RangeTableSample:
		if n := lastTwo(x.Method); n.name != "system" && n.name != "bernoulli" {
			j.effect(EffectOpaque)
		}
	default:
		if !reviewed[m.Descriptor().Name()] {
			j.effect(EffectOpaque)
		}
	}
	eachMessage(m, j.visit)
}

// lockedRows: a row lock on a mark would hold up every raise.
func (j *judge) lockedRows(x *pg.SelectStmt) {
	for _, f := range x.FromClause {
		if f.GetRangeVar().GetSchemaname() == fenceSchema {
			j.refuse("locking rows of schema " + fenceSchema)
		}
	}
}

// eachMessage calls f for every message directly below m.
func eachMessage(m protoreflect.Message, f func(protoreflect.Message)) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil:
		case fd.IsList():
			for l, i := v.List(), 0; i < l.Len(); i++ {
				f(l.Get(i).Message())
			}
		default:
			f(v.Message())
		}
		return true
	})
}
