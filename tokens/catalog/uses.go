package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// use is a call of a function that does not look like one in a statement: an operator, a cast, a domain's check, a type's
// input.
type use struct {
	function uint32
	text     string
}

func readUses(ctx context.Context, q Querier) ([]use, error) {
	rows, err := q.Query(ctx, `
		SELECT d.refobjid, pg_catalog.pg_describe_object(d.classid, d.objid, 0) FROM pg_catalog.pg_depend d
		WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid >= 16384
		  AND (d.classid IN ('pg_catalog.pg_operator'::pg_catalog.regclass, 'pg_catalog.pg_cast'::pg_catalog.regclass, 'pg_catalog.pg_type'::pg_catalog.regclass)
		    OR d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.oid = d.objid AND c.contypid <> 0))
		ORDER BY 2, 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (u use, err error) {
		return u, row.Scan(&u.function, &u.text)
	})
}

// invisible are the ways to the fence through functions that do not show in a statement's text.
func (g *graph) invisible(fence string, l leads, uses []use) (list []Invisible) {
	suspect := func(i int) bool { return l.functions[i] || g.codes[i].dynamic && !g.functions[i].extension }
	for _, u := range uses {
		if i, known := g.byOID[u.function]; known && suspect(i) {
			list = append(list, Invisible{fence, fmt.Sprintf("%s calls function %s", u.text, g.functions[i])})
		}
	}
	for i, f := range g.functions {
		if f.builtin && suspect(i) {
			list = append(list, Invisible{fence, fmt.Sprintf("function %s has the name of a built-in function", f)})
		}
	}
	return list
}
