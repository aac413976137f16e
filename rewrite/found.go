package rewrite

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Name is a name as PostgreSQL stores it: folded and without quotes.
type Name struct{ Schema, Name string }

// Found is what a database has of a fence beside the tables that the configuration names. A statement may mean what is
// found by its bare name or with its schema, as it may a table.
type Found struct {
	// Children are partitions and inheritance children of the fence's tables. They have the row token's column.
	Children []Name
	// Views are relations, writes to which reach the fence's tables by PostgreSQL's own doing. What columns they have says
	// nothing of the rows below: with row tokens, writes of rows to them are refused.
	Views []Name
	// Functions are functions and procedures that may write the fence. A call is a write to it, beside what it is anyhow.
	Functions []Name
}

// callers finds the fences that a call of a function may write.
type callers []tablePattern

func newCallers(fences []Fence) (c callers) {
	for i := range fences {
		for _, f := range fences[i].Found.Functions {
			c = append(c, tablePattern{tableName{f.Schema, f.Name}, newFenceSet(i), true})
		}
	}
	return c
}

func (c callers) find(n tableName) (s FenceSet) {
	for i := range c {
		if p := &c[i]; sameName(p.name, n.name) && (n.schema == "" || sameName(p.schema, n.schema)) {
			s = s.Union(p.fence)
		}
	}
	return s
}

// calls judges the call of a function that the catalog knows to write. A function that the configuration declares harmless
// is not asked about: what the catalog knows of a body are its words, and that is the way to say that they mislead.
func (j *judge) calls(n tableName) {
	j.uses().call(n)
	if s := j.a.callers.find(n); !s.Empty() {
		j.effect(EffectOpaque)
		j.fence(s)
	}
}

// addFound: the names are PostgreSQL's already. A child that is called * would be taken for a pattern; it is refused like a
// view where rows are to be stamped.
func (r *rowFences) addFound(fences []Fence, i int, f *rowFence) {
	for _, n := range fences[i].Found.Children {
		if n.Name == "*" {
			r.views = append(r.views, tableName{n.Schema, n.Name})
			continue
		}
		r.patterns = append(r.patterns, rowPattern{tableName{n.Schema, n.Name}, f})
	}
	for _, n := range fences[i].Found.Views {
		r.views = append(r.views, tableName{n.Schema, n.Name})
	}
}

// view reports whether the name could be that of a view through which rows with tokens are written.
func (r *rowFences) view(n tableName) bool {
	return !isTempSchema(n.schema) && slices.ContainsFunc(r.views, func(v tableName) bool {
		return sameName(v.name, n.name) && (n.schema == "" || sameName(v.schema, n.schema))
	})
}

var throughView = cannotStamp("rows that are written through a view",
	"Write the table by its own name, or, if another table has the view's name, with its schema.")

// CatalogChange says what of a catalog a statement may change, ordered by danger.
type CatalogChange uint8

const (
	CatalogSame    CatalogChange = iota
	CatalogOwn                   // a temporary view: a way to a fence of the session's own, which no look at the catalog finds
	CatalogFewer                 // less leads to a fence
	CatalogNames                 // what leads to a fence
	CatalogColumns               // also the order of a table's columns
)

// changingVerbs are those of DDL that a catalog must look at.
var changingVerbs = map[string]CatalogChange{
	"CREATE TABLE": CatalogColumns, "ALTER TABLE": CatalogColumns, "CREATE TABLE AS": CatalogColumns, "SELECT INTO": CatalogColumns,
	"ALTER RENAME": CatalogColumns, "ALTER SET SCHEMA": CatalogColumns, "CREATE SCHEMA": CatalogColumns, "IMPORT FOREIGN SCHEMA": CatalogColumns,
	"CREATE EXTENSION": CatalogColumns, "ALTER EXTENSION": CatalogColumns,
	"CREATE VIEW": CatalogNames, "CREATE RULE": CatalogNames, "CREATE TRIGGER": CatalogNames, "CREATE POLICY": CatalogNames, "ALTER POLICY": CatalogNames,
	"CREATE FUNCTION": CatalogNames, "ALTER FUNCTION": CatalogNames, "CREATE DOMAIN": CatalogNames, "ALTER DOMAIN": CatalogNames, "CREATE TYPE": CatalogNames,
	"ALTER TYPE": CatalogNames, "DDL": CatalogNames, "DROP": CatalogFewer, "DROP OWNED": CatalogFewer,
}

// newWays reports whether DDL may make a way to a fence that nobody knows of: a partition, a view, a function, or another name
// of one. What names nothing of a fence makes no partition of its tables.
func (j *judge) newWays(n *pg.Node) bool {
	if j.st.Catalog != CatalogColumns {
		return j.st.Catalog == CatalogNames
	}
	if x := n.GetAlterObjectSchemaStmt(); x != nil && x.Relation == nil {
		return true
	}
	switch n.GetRenameStmt().GetRenameType() {
	case pg.ObjectType_OBJECT_FUNCTION, pg.ObjectType_OBJECT_PROCEDURE, pg.ObjectType_OBJECT_ROUTINE, pg.ObjectType_OBJECT_AGGREGATE,
		pg.ObjectType_OBJECT_SCHEMA:
		return true
	}
	return !j.st.Fences.Empty() || j.st.Effect >= EffectOpaque
}

// isTemporary: a session's own relations are in no catalog but its own.
func isTemporary(n *pg.Node) bool {
	for _, rv := range []*pg.RangeVar{
		n.GetCreateStmt().GetRelation(), n.GetViewStmt().GetView(), n.GetCreateTableAsStmt().GetInto().GetRel(), n.GetSelectStmt().GetIntoClause().GetRel(),
	} {
		if rv.GetRelpersistence() == "t" || isTempSchema(rv.GetSchemaname()) {
			return true
		}
	}
	return false
}

// changedByCode goes by the words of the code: migrations are written that way.
func changedByCode(x *pg.DoStmt) CatalogChange {
	for _, arg := range x.Args {
		if hasDDL([]byte(arg.GetDefElem().GetArg().GetString_().GetSval())) {
			return CatalogColumns
		}
	}
	return CatalogSame
}
