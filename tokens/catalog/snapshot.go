package catalog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Snapshot is what a database had when it was read. Immutable.
type Snapshot struct {
	Database   string
	Generation uint64 // of the Watcher that read it: another number, another content. 0 from Read
	Fences     []FenceView
	Invisible  []Invisible

	columns map[[2]string][]Column // of every relation that bears the name of a fenced one
	digest  [sha256.Size]byte
}

// FenceView is what belongs to a fence and what leads to it.
type FenceView struct {
	Members
	Routes    []Route    // relations that are not the fence's, and statements on them that write it
	Functions []Function // that write it, as far as their bodies tell
}

// Route says that statements on a relation write a fence by what PostgreSQL does of itself.
type Route struct {
	Relation
	Events Events
	Via    []string // what leads on: "view", "rule r", "foreign key c", "trigger t", ...
}

// Invisible is a way to write that no text of a statement shows, so that only a trigger can hold it.
type Invisible struct {
	Fence string // "" for any
	Text  string
}

// Column is a column of a fenced table.
type Column struct {
	Name      string
	Type      string // as format_type has it, with modifiers
	Base      string // the same without modifiers
	NotNull   bool
	Stamped   bool // its default is fence.row_default(...)
	Generated bool // GENERATED ALWAYS AS (...): cannot be written
	Identity  bool
}

// Columns are those of a table in their order, nil for one that is not known: only tables that bear the name of a fenced
// one are. schema is "" for a bare name, which a session's search_path may lead to any schema: then all tables of that
// name have the same columns, or the answer is nil. A session's temporary tables are not known.
func (s *Snapshot) Columns(schema, table string) []Column {
	if schema != "" {
		return s.columns[[2]string{schema, table}]
	}
	var found []Column
	for name, columns := range s.columns {
		if name[1] != table {
			continue
		}
		if found != nil && !slices.Equal(found, columns) {
			return nil
		}
		found = columns
	}
	return found
}

// Read looks at the database of conn, in one transaction. Its cost is that of reading pg_class, pg_inherits, pg_rewrite,
// pg_constraint, pg_trigger, pg_proc and pg_depend, without what initdb made: 40 ms for a database of 500 tables, 500
// views and 500 functions (BenchmarkRead). conn is not in a transaction; its role needs no rights but to connect.
//
// No relation of the users is locked: a migration that holds its tables must not keep anybody from knowing the others. So
// nothing is called that would open one, as pg_get_expr and pg_relation_is_updatable do.
func Read(ctx context.Context, conn *pgx.Conn, fences []Fence) (*Snapshot, error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "SET LOCAL search_path = pg_catalog, pg_temp"); err != nil {
		return nil, err
	}
	g := &graph{}
	if g.tree, err = ReadTree(ctx, tx); err != nil {
		return nil, err
	}
	if g.edges, err = readEdges(ctx, tx, g.tree); err != nil {
		return nil, err
	}
	functions, err := readFunctions(ctx, tx)
	if err != nil {
		return nil, err
	}
	g.look(functions)
	uses, err := readUses(ctx, tx)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{}
	if err := tx.QueryRow(ctx, "SELECT pg_catalog.current_database()::text").Scan(&s.Database); err != nil {
		return nil, err
	}
	for _, f := range fences {
		v, invisible := g.fence(g.tree.Members(f), uses)
		s.Fences = append(s.Fences, v)
		s.Invisible = append(s.Invisible, invisible...)
	}
	s.Invisible = append(s.Invisible, g.unreadable()...)
	if s.columns, err = readColumns(ctx, tx, g.tree, s.Fences); err != nil {
		return nil, err
	}
	s.digest = sha256.Sum256(fmt.Appendf(nil, "%v", *s))
	return s, tx.Commit(ctx)
}

func readColumns(ctx context.Context, q Querier, tree *Tree, fences []FenceView) (map[[2]string][]Column, error) {
	fenced := map[string]bool{}
	for _, f := range fences {
		for _, m := range f.All {
			fenced[m.Name] = true
		}
	}
	names := map[uint32][2]string{}
	var oids []uint32
	for _, r := range tree.Relations {
		if fenced[r.Name] {
			names[r.OID] = [2]string{r.Schema, r.Name}
			oids = append(oids, r.OID)
		}
	}
	columns := map[[2]string][]Column{}
	rows, err := q.Query(ctx, `
		SELECT a.attrelid, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), pg_catalog.format_type(a.atttypid, NULL), a.attnotnull,
		  EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'fence' AND p.proname = 'row_default'
		    AND p.oid::text = pg_catalog.substring(d.adbin::text, '^[{]FUNCEXPR :funcid ([0-9]+) ')),
		  a.attgenerated <> '', a.attidentity <> ''
		FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
		ORDER BY a.attrelid, a.attnum`, oids)
	if err != nil {
		return nil, err
	}
	var table uint32
	var c Column
	_, err = pgx.ForEachRow(rows, []any{&table, &c.Name, &c.Type, &c.Base, &c.NotNull, &c.Stamped, &c.Generated, &c.Identity}, func() error {
		columns[names[table]] = append(columns[names[table]], c)
		return nil
	})
	return columns, err
}
