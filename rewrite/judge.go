package rewrite

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// judge collects what one statement does.
type judge struct {
	a       *Analyzer
	st      Statement
	literal bool // the value of a literal decided something

	writes     []rowWrite // what is to be spliced
	rowRefusal *Refusal   // a write that row tokens cannot be given
	asked      []taken    // from the catalog
}

// inside judges a statement inside EXPLAIN or PREPARE. What is to be spliced stands in the same text.
func (j *judge) inside(n *pg.Node) Statement {
	inner := judge{a: j.a}
	st := inner.statement(n)
	j.literal = j.literal || inner.literal
	j.asked = append(j.asked, inner.asked...)
	j.writes = append(j.writes, inner.writes...)
	if inner.rowRefusal != nil {
		j.refuseRow(inner.rowRefusal)
	}
	return st
}

func (j *judge) effect(e Effect) { j.st.Effect = max(j.st.Effect, e) }

func (j *judge) fence(s FenceSet) { j.st.Fences = j.st.Fences.Union(s) }

func (j *judge) refuse(what string) {
	if j.st.Refuse == nil {
		j.st.Refuse = &Refusal{
			Code:    "ZF004",
			Message: what + " is not allowed through fenceproxy",
			Hint:    "Schema " + fenceSchema + " is changed with fenceproxy's own commands, on a direct connection.",
		}
	}
}

// write judges a table that the statement changes. PostgreSQL never takes the target of INSERT, UPDATE, DELETE, MERGE or
// COPY for a CTE of that name (parse_clause.c setTargetTable), so CTEs do not matter here.
func (j *judge) write(rv *pg.RangeVar) {
	if rv == nil {
		return
	}
	j.effect(EffectWrite)
	if rv.Relpersistence != "t" {
		j.writeName(tableName{rv.Schemaname, rv.Relname})
	}
}

func (j *judge) writeName(n tableName) {
	j.effect(EffectWrite)
	j.fence(j.fencesOf(n))
	switch {
	case n.schema == fenceSchema:
		j.refuse("changing schema " + fenceSchema)
	case n.schema != "" && n.schema != "pg_catalog":
	case n.name == "pg_settings": // its rule calls set_config
		j.st.MayChangeToken, j.st.ChangesLexing, j.st.MayLiftReadOnly = true, true, true
	case n.schema == "pg_catalog" || strings.HasPrefix(n.name, "pg_"): // a catalog: can redefine anything
		j.effect(EffectOpaque)
	}
}

// statement judges a statement at the top of a text, or the one inside EXPLAIN and PREPARE.
func (j *judge) statement(n *pg.Node) Statement {
	if !j.query(n) && !j.session(n) && !j.schema(n) {
		j.st.Verb = "OTHER"
		j.effect(EffectOpaque)
	}
	if j.st.Effect >= EffectOpaque { // code may call set_config
		j.st.MayChangeToken, j.st.ChangesLexing = true, true
	}
	if j.st.Kind == KindNoBlock { // no guard can run in front of it; what needs one is refused already
		j.st.Fences, j.st.Uses = FenceSet{}, nil
	}
	if !isTemporary(n) {
		j.st.Catalog = changingVerbs[j.st.Verb]
	} else if n.GetViewStmt() != nil {
		j.st.Catalog = CatalogOwn
	}
	if x := n.GetDoStmt(); x != nil {
		j.st.Catalog = changedByCode(x)
	}
	j.st.NewWays = j.st.NewWays || j.newWays(n)
	return j.st
}

// query judges statements that read or write rows.
func (j *judge) query(n *pg.Node) bool {
	switch x := n.GetNode().(type) {
	case *pg.Node_SelectStmt:
		j.st.Verb = "SELECT"
		if x.SelectStmt.IntoClause != nil {
			j.st.Verb = "SELECT INTO"
		}
		if !j.loneSetConfig(x.SelectStmt) {
			j.walk(x.SelectStmt)
		}
	case *pg.Node_InsertStmt:
		j.st.Verb = "INSERT"
		j.walk(x.InsertStmt)
	case *pg.Node_UpdateStmt:
		j.st.Verb = "UPDATE"
		j.walk(x.UpdateStmt)
	case *pg.Node_DeleteStmt:
		j.st.Verb = "DELETE"
		j.walk(x.DeleteStmt)
	case *pg.Node_MergeStmt:
		j.st.Verb = "MERGE"
		j.walk(x.MergeStmt)
	case *pg.Node_CopyStmt:
		j.copy(x.CopyStmt)
	case *pg.Node_TruncateStmt:
		j.st.Verb = "TRUNCATE"
		j.touch(x.TruncateStmt)
		j.truncateRows(x.TruncateStmt)
		if x.TruncateStmt.Behavior == pg.DropBehavior_DROP_CASCADE { // and whatever refers to these: any fence, with or without a token
			j.effect(EffectOpaque)
			j.fence(j.a.All())
		}
	case *pg.Node_LockStmt:
		j.lock(x.LockStmt)
	case *pg.Node_CreateTableAsStmt:
		j.createAs(x.CreateTableAsStmt)
	case *pg.Node_RefreshMatViewStmt:
		j.st.Verb = "REFRESH MATERIALIZED VIEW"
		j.effect(EffectOpaque) // it runs the view's query
		j.write(x.RefreshMatViewStmt.Relation)
	case *pg.Node_ExplainStmt:
		j.explain(x.ExplainStmt)
	case *pg.Node_DoStmt:
		j.st.Kind, j.st.Verb = KindDo, "DO"
		j.effect(EffectOpaque)
		j.literal = true
	case *pg.Node_CallStmt:
		j.st.Kind, j.st.Verb = KindCall, "CALL"
		j.walk(x.CallStmt.Funccall)
	default:
		return false
	}
	return true
}

// copy: files and programs of the server are not tables, but a program can be anything.
func (j *judge) copy(x *pg.CopyStmt) {
	direction := &j.st.Verb
	if x.IsFrom {
		*direction = "COPY FROM"
		j.copyRows(x)
	} else {
		*direction = "COPY TO"
	}
	j.walkNode(x.Query)
	j.walkNode(x.WhereClause)
	switch {
	case x.IsProgram:
		j.effect(EffectOpaque)
		j.st.PastReadOnly = true
	case x.Filename != "":
		j.effect(EffectWrite)
		j.st.PastReadOnly = true
	case x.IsFrom:
		j.st.Kind = KindCopyIn
	default:
		j.st.Kind = KindCopyOut
	}
}

// shareLock is the weakest mode that conflicts with ROW EXCLUSIVE, which writers take (lockdefs.h).
const shareLock = 5

// lock: a lock that keeps writers out is a writer's business; a zombie must not stop the rightful holder with it.
func (j *judge) lock(x *pg.LockStmt) {
	j.st.Verb = "LOCK"
	j.effect(EffectLock)
	for _, r := range x.Relations {
		rv := r.GetRangeVar()
		if rv.GetSchemaname() == fenceSchema {
			j.refuse("locking schema " + fenceSchema)
		}
		if x.Mode < shareLock {
			continue
		}
		if fences := j.fencesOf(tableName{rv.GetSchemaname(), rv.GetRelname()}); !fences.Empty() {
			j.effect(EffectWrite)
			j.fence(fences)
		}
	}
}

func (j *judge) createAs(x *pg.CreateTableAsStmt) {
	j.st.Verb = "CREATE TABLE AS"
	if x.Objtype == pg.ObjectType_OBJECT_MATVIEW {
		j.st.Verb = "CREATE MATERIALIZED VIEW"
	}
	j.write(x.Into.GetRel())
	if e := x.Query.GetExecuteStmt(); e != nil {
		j.execute(e)
		return
	}
	j.walkNode(x.Query)
}

// explain: with ANALYZE the statement runs. Without, the planner may still run functions that claim to be immutable, and
// nothing else is done. EXPLAIN EXECUTE stays KindExecute: only the engine knows what was prepared.
func (j *judge) explain(x *pg.ExplainStmt) {
	analyze := false
	for _, o := range x.Options {
		d := o.GetDefElem()
		if d.GetDefname() != "analyze" {
			continue
		}
		analyze = true
		if d.Arg != nil {
			j.literal = true
			analyze = !isFalse(d.Arg)
		}
	}
	st := j.inside(x.Query)
	switch {
	case analyze:
		j.st = st
		j.st.Verb = "EXPLAIN ANALYZE"
		if st.Token != nil || st.Kind == KindResetToken {
			j.st.MayChangeToken = true
		}
		j.st.Token = nil
	case st.Effect >= EffectOpaque:
		j.st = Statement{Effect: st.Effect, Verb: "EXPLAIN"}
	default:
		j.st = Statement{Verb: "EXPLAIN"}
	}
	if st.Kind == KindExecute {
		j.st.Kind, j.st.Name = st.Kind, st.Name
	} else {
		j.st.Kind, j.st.Name = KindOther, ""
	}
}

// isFalse reports whether the value of an option means off (define.c defGetBoolean). In doubt it is on.
func isFalse(n *pg.Node) bool {
	switch x := n.GetNode().(type) {
	case *pg.Node_Integer:
		return x.Integer.Ival == 0
	case *pg.Node_Boolean:
		return !x.Boolean.Boolval
	case *pg.Node_String_:
		return strings.EqualFold(x.String_.Sval, "false") || strings.EqualFold(x.String_.Sval, "off")
	}
	return false
}
