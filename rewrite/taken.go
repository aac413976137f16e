package rewrite

import "slices"

// taken is what a plan has taken from the Catalog. A statement that is prepared outlives that: its text says it for ever.
type taken struct {
	schema, name string   // of the table
	known        bool     // there is such a table
	columns      []string // its first columns
	typed, typ   string   // a column and its type; no column: "" and ""
	stamped      bool     // COPY may leave the column out
}

// still reports whether the catalog would say the same now.
func (t *taken) still(c Catalog) bool {
	now, known := c.Table(t.schema, t.name)
	return known == t.known && len(now.Columns) >= len(t.columns) && slices.Equal(now.Columns[:len(t.columns)], t.columns) &&
		(t.typed == "" || now.typeOf(t.typed) == t.typ) && (!t.stamped || now.StampedByDefault)
}

// typeOf is the type of a column, "" if it is not known.
func (t *Table) typeOf(column string) string {
	if len(t.Types) != len(t.Columns) {
		return ""
	}
	if i := slices.IndexFunc(t.Columns, func(n string) bool { return sameName(n, column) }); i >= 0 {
		return t.Types[i]
	}
	return ""
}

// AsksForColumns reports whether there are texts whose meaning depends on what the catalog tells of columns.
func (a *Analyzer) AsksForColumns() bool { return a.rows != nil && a.rows.catalog != nil }

// Holds reports whether what the plan has taken from the catalog is still so: a plan that was made before is to be asked
// again each time that it is run.
func (a *Analyzer) Holds(p *Plan) bool {
	if p.catalog == 0 {
		return true
	}
	if !a.AsksForColumns() {
		return false
	}
	if a.fresh(p) {
		return true
	}
	for i := range p.taken {
		if !p.taken[i].still(a.rows.catalog) {
			return false
		}
	}
	return true
}

// RestOn lets p rest on what q has taken from the catalog: p is of a part of q's text.
func (p *Plan) RestOn(q *Plan) {
	p.catalog, p.taken = q.catalog, q.taken
	p.Plain = p.Plain && p.catalog == 0
}
