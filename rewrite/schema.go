package rewrite

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema judges DDL and maintenance. A statement that names a fenced table as its object is a write to it, whether it
// changes rows or only what later writes do: guarding it costs little. What a new table, view, function or rule will do
// later is not seen here.
func (j *judge) schema(n *pg.Node) bool {
	j.effect(EffectWrite)
	return j.table(n) || j.object(n) || j.routine(n) || j.maintenance(n)
}

// table judges DDL on tables and what hangs on them.
func (j *judge) table(n *pg.Node) bool {
	switch x := n.GetNode().(type) {
	case *pg.Node_CreateStmt:
		j.st.Verb = "CREATE TABLE"
		j.createTable(x.CreateStmt)
	case *pg.Node_CreateForeignTableStmt:
		j.st.Verb = "CREATE TABLE"
		j.createTable(x.CreateForeignTableStmt.BaseStmt)
	case *pg.Node_AlterTableStmt:
		j.st.Verb = "ALTER TABLE"
		j.touch(x.AlterTableStmt)
		j.detach(x.AlterTableStmt)
	case *pg.Node_IndexStmt:
		j.st.Verb = "CREATE INDEX"
		j.touch(x.IndexStmt)
		if x.IndexStmt.Concurrent {
			j.st.Kind = KindNoBlock
		}
	case *pg.Node_ViewStmt:
		j.st.Verb = "CREATE VIEW"
		j.write(x.ViewStmt.View)
	case *pg.Node_CreateTrigStmt:
		j.st.Verb = "CREATE TRIGGER"
		j.write(x.CreateTrigStmt.Relation)
	case *pg.Node_RuleStmt: // the actions run later
		j.st.Verb = "CREATE RULE"
		j.write(x.RuleStmt.Relation)
	case *pg.Node_CreatePolicyStmt:
		j.st.Verb = "CREATE POLICY"
		j.write(x.CreatePolicyStmt.Table)
	case *pg.Node_AlterPolicyStmt:
		j.st.Verb = "ALTER POLICY"
		j.write(x.AlterPolicyStmt.Table)
	case *pg.Node_CreateSeqStmt:
		j.st.Verb = "CREATE SEQUENCE"
		j.touch(x.CreateSeqStmt)
	case *pg.Node_AlterSeqStmt:
		j.st.Verb = "ALTER SEQUENCE"
		j.touch(x.AlterSeqStmt)
	case *pg.Node_CreateStatsStmt:
		j.st.Verb = "CREATE STATISTICS"
		j.touch(x.CreateStatsStmt)
		j.names(x.CreateStatsStmt.Defnames)
	case *pg.Node_AlterStatsStmt:
		j.st.Verb = "ALTER STATISTICS"
		j.names(x.AlterStatsStmt.Defnames)
	case *pg.Node_AlterTableMoveAllStmt:
		j.st.Verb = "ALTER TABLE"
	default:
		return false
	}
	return true
}

// createTable: a new, empty table is no fenced data yet; a partition or a child of a fenced table is.
func (j *judge) createTable(x *pg.CreateStmt) {
	if x.GetRelation().GetSchemaname() == fenceSchema {
		j.refuse("changing schema " + fenceSchema)
	}
	for _, parent := range x.GetInhRelations() {
		j.write(parent.GetRangeVar())
	}
	if x.GetPartbound() != nil { // its expressions are evaluated at once
		j.touch(x.Partbound)
	}
}

// detach: the concurrent form commits in the middle, so no guard can hold for it.
func (j *judge) detach(x *pg.AlterTableStmt) {
	for _, c := range x.Cmds {
		if !c.GetAlterTableCmd().GetDef().GetPartitionCmd().GetConcurrent() {
			continue
		}
		j.st.Kind = KindNoBlock
		if !j.st.Fences.Empty() && j.st.Refuse == nil {
			j.st.Refuse = &Refusal{
				Code:    "ZF004",
				Message: "DETACH PARTITION CONCURRENTLY is not allowed on fenced data",
				Hint:    "It commits in two transactions, which no token can guard. DETACH PARTITION without CONCURRENTLY is guarded.",
			}
		}
	}
}

// touch judges every table below m as changed, and every function as called.
func (j *judge) touch(m proto.Message) { j.touchMessage(m.ProtoReflect()) }

func (j *judge) touchMessage(m protoreflect.Message) {
	switch x := m.Interface().(type) {
	case *pg.RangeVar:
		j.write(x)
	case *pg.SelectStmt:
		j.visit(m)
		return
	case *pg.FuncCall:
		j.call(x)
	case *pg.A_Expr:
		j.operator(x.Name)
	case *pg.Constraint:
		x.Pktable = nil // a foreign key reads the table that it refers to
	case *pg.ObjectWithArgs:
		j.names(x.Objname)
	}
	eachMessage(m, j.touchMessage)
}
