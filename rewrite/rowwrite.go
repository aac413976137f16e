package rewrite

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
)

// rowWrite is an INSERT, UPDATE, DELETE or MERGE of a table with row tokens, somewhere in a statement.
type rowWrite struct {
	statement int
	node      proto.Message
	rv        *pg.RangeVar
	fence     *rowFence
}

// target judges the table that INSERT, UPDATE, DELETE or MERGE writes. With StaleRewrite the statement checks the rows
// that it finds itself, and needs no guard; what it creates is another matter.
func (j *judge) target(rv *pg.RangeVar, node proto.Message) {
	f := j.rowFence(rv)
	if f == nil {
		j.write(rv)
		return
	}
	j.writes = append(j.writes, rowWrite{node: node, rv: rv, fence: f})
	if !f.rewrite {
		j.write(rv)
		return
	}
	j.effect(EffectWrite)
	own := newFenceSet(f.index)
	j.fence(j.a.tables.find(tableName{rv.Schemaname, rv.Relname}).without(own))
	if inserts(node) {
		j.st.NewRows = j.st.NewRows.Union(own)
	} else {
		j.st.RowFences = j.st.RowFences.Union(own)
	}
}

// inserts reports whether the statement may create rows, which no token of theirs protects.
func inserts(node proto.Message) bool {
	switch x := node.(type) {
	case *pg.InsertStmt, *pg.CopyStmt:
		return true
	case *pg.MergeStmt:
		for _, c := range x.MergeWhenClauses {
			if c.GetMergeWhenClause().GetCommandType() == pg.CmdType_CMD_INSERT {
				return true
			}
		}
	}
	return false
}

// rowFence returns the row fence of a table. A table of two of them is refused: one column cannot hold the tokens of two
// orders.
func (j *judge) rowFence(rv *pg.RangeVar) *rowFence {
	if j.a.rows == nil || rv == nil || rv.Relpersistence == "t" {
		return nil
	}
	n := tableName{rv.Schemaname, rv.Relname}
	f, many := j.a.rows.find(n, &j.asked)
	used := usedTable{tableName: n, rows: true}
	if f != nil {
		used.row = f.index + 1
	}
	j.uses().table(used)
	if j.a.rows.view(n) {
		j.refuseRow(throughView)
		return nil
	}
	if many {
		j.refuseRow(cannotStamp("a table of several fences with row tokens",
			"Write the table with its schema, or configure it in one fence only."))
		return nil
	}
	return f
}

func (j *judge) refuseRow(r *Refusal) {
	if j.rowRefusal == nil {
		j.rowRefusal = r
	}
}

func cannotStamp(what, hint string) *Refusal {
	return &Refusal{Code: "ZF004", Message: what + " cannot be given row tokens", Hint: hint}
}

// truncateRows: rows that nothing names are those of every fence of a scope, and CASCADE may lead to any table.
func (j *judge) truncateRows(x *pg.TruncateStmt) {
	if j.a.rows == nil {
		return
	}
	if x.Behavior == pg.DropBehavior_DROP_CASCADE && j.a.rows.scoped() {
		j.refuseRow(cascadingRows)
	}
	for _, r := range x.Relations {
		n := tableName{r.GetRangeVar().GetSchemaname(), r.GetRangeVar().GetRelname()}
		used := usedTable{tableName: n, rows: true}
		if f, _ := j.a.rows.find(n, &j.asked); f != nil {
			used.row = f.index + 1
			if f.scope != nil {
				j.refuseRow(allRows)
			}
		}
		j.uses().table(used)
	}
}

var allRows = &Refusal{
	Code:    "ZF004",
	Message: "TRUNCATE writes the rows of every fence of the table's scope",
	Hint:    "DELETE the rows that the session's tokens are for.",
}

var cascadingRows = &Refusal{
	Code:    "ZF004",
	Message: "TRUNCATE ... CASCADE may write the rows of every fence of a scope",
	Hint:    "Name the tables without CASCADE.",
}

var scopedCopy = &Refusal{
	Code:    "ZF004",
	Message: "the fences of the rows that COPY FROM brings cannot be told",
	Hint:    "Copy into a table of your own and INSERT ... SELECT from it, with a list of columns.",
}

// copyRows judges COPY ... FROM: nothing can be spliced into its data, so the stamp must be in it or be the default.
func (j *judge) copyRows(x *pg.CopyStmt) {
	f := j.rowFence(x.Relation)
	if f == nil {
		j.write(x.Relation)
		return
	}
	j.target(x.Relation, x)
	j.writes = j.writes[:len(j.writes)-1]
	if f.scope != nil {
		j.refuseRow(scopedCopy)
		return
	}
	if len(x.Attlist) == 0 { // all columns, the row token's too, are in the data
		return
	}
	for _, a := range x.Attlist {
		if sameName(a.GetString_().GetSval(), f.column) {
			return
		}
	}
	if c := j.a.rows.catalog; c != nil {
		t, ok := c.Table(x.Relation.Schemaname, x.Relation.Relname)
		stamped := ok && t.StampedByDefault
		j.asked = append(j.asked, taken{schema: x.Relation.Schemaname, name: x.Relation.Relname, known: ok, stamped: stamped})
		if stamped { // with 0 in a session without a token, for which there must be a guard
			j.fence(newFenceSet(f.index))
			return
		}
	}
	j.refuseRow(cannotStamp("COPY FROM into this table",
		"Make fence.row_default("+f.args+") the default of column "+quoteName(f.column)+", copy that column too, or copy into a table of your own and INSERT ... SELECT from it."))
}
