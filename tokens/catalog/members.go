package catalog

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Querier is a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Members are the relations of one fence.
type Members struct {
	Fence     string
	All       []Member  // parents before what is below them
	Unmatched []Pattern // patterns that mean no relation
}

// Member is a relation of a fence: a pattern names it, or it is a partition or an inheritance child, at any depth, of
// one that a pattern names.
type Member struct {
	Relation
	Named  []Pattern // the patterns that mean it; none: it is here for its parent
	Parent Relation  // why it is here when it is not named
	// Exposed: above it, at any height, is a relation that is not in the fence; a statement that names that one writes it.
	Exposed bool
}

// Tree is every relation of a database that can be written, and who is below whom. System schemas, the schema fence and
// temporary relations are left out: the first are not fenced, the last are a session's own.
type Tree struct {
	Relations []Relation // by schema and name
	byOID     map[uint32]int
	below     map[uint32][]uint32
	above     map[uint32][]uint32
}

// ReadTree reads the relations. Two queries of the catalog, whose rows are as many as there are relations.
func ReadTree(ctx context.Context, q Querier) (*Tree, error) {
	rows, err := q.Query(ctx, `
		SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text, c.relispartition
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND c.relpersistence <> 't'
		  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'fence') AND n.nspname !~ '^pg_toast'
		ORDER BY n.nspname, c.relname`)
	if err != nil {
		return nil, err
	}
	t := &Tree{byOID: map[uint32]int{}, below: map[uint32][]uint32{}, above: map[uint32][]uint32{}}
	t.Relations, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Relation, err error) {
		return r, row.Scan(&r.OID, &r.Schema, &r.Name, &r.Kind, &r.Partition)
	})
	if err != nil {
		return nil, err
	}
	for i, r := range t.Relations {
		t.byOID[r.OID] = i
	}
	rows, err = q.Query(ctx, `SELECT inhparent, inhrelid FROM pg_catalog.pg_inherits ORDER BY inhparent, inhrelid`)
	if err != nil {
		return nil, err
	}
	var parent, child uint32
	_, err = pgx.ForEachRow(rows, []any{&parent, &child}, func() error {
		if _, known := t.byOID[child]; known { // indexes inherit too
			t.below[parent] = append(t.below[parent], child)
			t.above[child] = append(t.above[child], parent)
		}
		return nil
	})
	return t, err
}

// PartitionParent is the partitioned table that a partition belongs to.
func (t *Tree) PartitionParent(r Relation) (Relation, bool) {
	if !r.Partition || len(t.above[r.OID]) != 1 {
		return Relation{}, false
	}
	return t.Relation(t.above[r.OID][0])
}

// Relation finds a relation by its OID.
func (t *Tree) Relation(oid uint32) (Relation, bool) {
	i, known := t.byOID[oid]
	if !known {
		return Relation{}, false
	}
	return t.Relations[i], true
}

// Members finds the relations of a fence.
func (t *Tree) Members(f Fence) Members {
	m := Members{Fence: f.Name}
	at := map[uint32]int{}
	for _, r := range t.Relations {
		var named []Pattern
		for _, p := range f.Tables {
			if p.Matches(r.Schema, r.Name) {
				named = append(named, p)
			}
		}
		if named != nil {
			at[r.OID] = len(m.All)
			m.All = append(m.All, Member{Relation: r, Named: named})
		}
	}
	for _, p := range f.Tables {
		if !slices.ContainsFunc(m.All, func(r Member) bool { return p.Matches(r.Schema, r.Name) }) {
			m.Unmatched = append(m.Unmatched, p)
		}
	}
	for i := 0; i < len(m.All); i++ {
		for _, child := range t.below[m.All[i].OID] {
			if _, known := at[child]; !known {
				at[child] = len(m.All)
				m.All = append(m.All, Member{Relation: t.Relations[t.byOID[child]], Parent: m.All[i].Relation})
			}
		}
	}
	t.parentsFirst(m.All)
	for i := range m.All {
		at[m.All[i].OID] = i
	}
	for i := range m.All {
		for _, parent := range t.above[m.All[i].OID] {
			if j, fenced := at[parent]; !fenced || m.All[j].Exposed {
				m.All[i].Exposed = true
			}
		}
	}
	return m
}

// parentsFirst keeps the order of the list otherwise.
func (t *Tree) parentsFirst(list []Member) {
	depth := map[uint32]int{}
	var of func(oid uint32) int
	of = func(oid uint32) int {
		d, known := depth[oid]
		if !known {
			for _, parent := range t.above[oid] {
				d = max(d, of(parent)+1)
			}
			depth[oid] = d
		}
		return d
	}
	slices.SortStableFunc(list, func(a, b Member) int { return of(a.OID) - of(b.OID) })
}
