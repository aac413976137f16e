package triggers

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// found is a trigger in the database that bears one of our names or calls one of our functions.
type found struct {
	oid      uint32
	table    uint32
	schema   string // of the table
	relation string
	name     string
	function string // in schema fence; "" for any other
	kind     int    // tgtype
	enabled  string // tgenabled
	args     []string
	narrowed bool // by WHEN or a list of columns
	clone    bool // made by PostgreSQL for a trigger of the partitioned table above
}

// tables knows the triggers by table.
type tables map[uint32][]found

// read collects them. Before the fence schema is installed there are none of ours; a trigger of another function under
// our name is found all the same.
func read(ctx context.Context, q catalog.Querier) (tables, error) {
	rows, err := q.Query(ctx, `
		SELECT t.oid, t.tgrelid, n.nspname::text, c.relname::text, t.tgname::text, CASE WHEN f.nspname = 'fence' THEN p.proname::text ELSE '' END,
		  t.tgtype::int4, t.tgenabled::text, pg_catalog.string_to_array(pg_catalog.encode(t.tgargs, 'escape'), E'\\000'),
		  t.tgqual IS NOT NULL OR t.tgattr::text <> '', t.tgparentid <> 0
		FROM pg_catalog.pg_trigger t
		JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid JOIN pg_catalog.pg_namespace f ON f.oid = p.pronamespace
		WHERE (NOT t.tgisinternal OR t.tgparentid <> 0) AND n.nspname <> 'fence'
		  AND (f.nspname = 'fence' AND (p.proname IN ('guard_write', 'guard_row', 'guard_truncate') OR p.proname LIKE 'row\_token\_%') OR t.tgname IN ('fence_guard', 'fence_guard_row', 'fence_guard_truncate', 'fence_row_token'))
		ORDER BY n.nspname, c.relname, t.tgname`)
	if err != nil {
		return nil, err
	}
	all := tables{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var f found
		err := row.Scan(&f.oid, &f.table, &f.schema, &f.relation, &f.name, &f.function, &f.kind, &f.enabled, &f.args, &f.narrowed, &f.clone)
		if n := len(f.args); n > 0 {
			f.args = f.args[:n-1] // each is followed by a zero byte
		}
		all[f.table] = append(all[f.table], f)
		return struct{}{}, err
	})
	return all, err
}

// on finds the trigger by its name.
func (t tables) on(r catalog.Relation, f form) *found {
	for i := range t[r.OID] {
		if t[r.OID][i].name == f.name {
			return &t[r.OID][i]
		}
	}
	return nil
}
