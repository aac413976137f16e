package dbcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/tokens/triggers"
)

// relation is a table, or what can be written like one.
type relation struct {
	oid    uint32
	schema string
	name   string
	kind   string // of pg_class.relkind
}

func (r relation) String() string {
	return pgx.Identifier{r.schema}.Sanitize() + "." + pgx.Identifier{r.name}.Sanitize()
}

// relations are all that a statement can write: tables, partitioned and foreign ones, views and their kin.
func relations(ctx context.Context, conn *pgx.Conn) ([]relation, error) {
	rows, err := conn.Query(ctx, `
		SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'fence')
		  AND n.nspname !~ '^pg_(toast|temp)'
		ORDER BY n.nspname, c.relname`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r relation, err error) {
		return r, row.Scan(&r.oid, &r.schema, &r.name, &r.kind)
	})
}

// children are the partitions and inheritance children, by parent.
func children(ctx context.Context, conn *pgx.Conn) (map[uint32][]uint32, error) {
	rows, err := conn.Query(ctx, `SELECT inhparent, inhrelid FROM pg_catalog.pg_inherits ORDER BY inhparent, inhseqno, inhrelid`)
	if err != nil {
		return nil, err
	}
	below := map[uint32][]uint32{}
	var parent, child uint32
	_, err = pgx.ForEachRow(rows, []any{&parent, &child}, func() error {
		below[parent] = append(below[parent], child)
		return nil
	})
	return below, err
}

// checkTables compares the fences' tables with the catalog.
func checkTables(ctx context.Context, conn *pgx.Conn, fences []config.Fence) ([]Finding, error) {
	all, err := relations(ctx, conn)
	if err != nil {
		return nil, err
	}
	below, err := children(ctx, conn)
	if err != nil {
		return nil, err
	}
	guarded, err := triggers.Guarded(ctx, conn)
	if err != nil {
		return nil, err
	}
	byOID := map[uint32]relation{}
	for _, r := range all {
		byOID[r.oid] = r
	}
	var findings []Finding
	for _, f := range fences {
		findings = append(findings, checkFence(f, all, byOID, below, guarded)...)
	}
	return findings, nil
}

func checkFence(f config.Fence, all []relation, byOID map[uint32]relation, below map[uint32][]uint32, guarded map[uint32][]string) []Finding {
	var findings []Finding
	covered := map[uint32]bool{}
	for _, p := range f.Patterns() {
		var found []relation
		for _, r := range all {
			if p.Matches(r.schema, r.name) {
				found = append(found, r)
				covered[r.oid] = true
			}
		}
		switch {
		case len(found) == 0 && p.Table == "":
			findings = append(findings, Finding{Problem, fmt.Sprintf("fence %s: %s matches no table", f.Name, p.Text)})
		case len(found) == 0:
			findings = append(findings, Finding{Problem, fmt.Sprintf("fence %s: table %s does not exist", f.Name, p.Text)})
		case len(found) > 1 && p.Schema == "":
			findings = append(findings, Finding{Notice, fmt.Sprintf("fence %s: %s means %d tables: %s", f.Name, p.Text, len(found), list(found))})
		}
		for _, r := range found {
			if r.kind == "v" {
				findings = append(findings, Finding{Notice, fmt.Sprintf("fence %s: %s is a view; writes to the tables below it are fenced only if these are named", f.Name, r)})
			}
		}
	}
	var missing []relation
	seen := map[uint32]bool{}
	for _, parent := range sortedKeys(covered) {
		missing = unnamed(parent, byOID, below, covered, seen, missing)
	}
	held := slices.DeleteFunc(slices.Clone(missing), func(r relation) bool { return !slices.Contains(guarded[r.oid], f.Name) })
	missing = slices.DeleteFunc(missing, func(r relation) bool { return slices.Contains(guarded[r.oid], f.Name) })
	if len(held) > 0 {
		findings = append(findings, Finding{Notice, fmt.Sprintf("fence %s: %s not named, writes by their own name are fenced by triggers, and by serve only while it can read the catalog: %s",
			f.Name, partitions(len(held)), list(held))})
	}
	if len(missing) > 0 {
		findings = append(findings, Finding{Problem, fmt.Sprintf("fence %s: %s not named, writes by their own name are fenced only while serve can read the catalog: %s",
			f.Name, partitions(len(missing)), list(missing))})
	}
	return findings
}

// unnamed collects the descendants of parent that no pattern of the fence covers.
func unnamed(parent uint32, byOID map[uint32]relation, below map[uint32][]uint32, covered, seen map[uint32]bool, to []relation) []relation {
	for _, child := range below[parent] {
		if seen[child] {
			continue
		}
		seen[child] = true
		if r, known := byOID[child]; known && !covered[child] {
			to = append(to, r)
		}
		to = unnamed(child, byOID, below, covered, seen, to)
	}
	return to
}

func partitions(n int) string {
	if n == 1 {
		return "1 partition or child table is"
	}
	return fmt.Sprintf("%d partitions or child tables are", n)
}

// list names relations, not more than fit a line or two.
func list(relations []relation) string {
	const most = 20
	var names []string
	for _, r := range relations[:min(most, len(relations))] {
		names = append(names, r.String())
	}
	if more := len(relations) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func sortedKeys(m map[uint32]bool) []uint32 {
	keys := make([]uint32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
