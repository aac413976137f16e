package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// edge: a statement that does events to from does toEvents to the relation to, or calls the function.
type edge struct {
	from     uint32
	events   Events
	to       uint32 // relation, or
	function uint32
	toEvents Events
	via      string
}

// readEdges collects what PostgreSQL does by itself when a relation is written or read.
func readEdges(ctx context.Context, q Querier, tree *Tree) ([]edge, error) {
	var all []edge
	for parent, children := range tree.below {
		for _, child := range children {
			all = append(all, edge{from: parent, events: anyWrite, to: child, toEvents: anyWrite, via: "inheritance"})
		}
	}
	for _, read := range []func(context.Context, Querier) ([]edge, error){readRules, readForeignKeys, readTriggers, readExpressions} {
		edges, err := read(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, edges...)
	}
	return all, nil
}

// readRules: views are rules too.
func readRules(ctx context.Context, q Querier) ([]edge, error) {
	rows, err := q.Query(ctx, `
		SELECT r.ev_class, r.rulename::text, r.ev_type::text, r.ev_action::text, c.relkind = 'v'
		FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'fence')
		ORDER BY r.oid`)
	if err != nil {
		return nil, err
	}
	var all []edge
	var on uint32
	var name, event, action string
	var view bool
	_, err = pgx.ForEachRow(rows, []any{&on, &name, &event, &action, &view}, func() error {
		// CmdType as a character, in ev_type.
		events := map[string]Events{"1": Select, "2": Update, "3": Insert, "4": Delete}[event]
		parsed := parseTree(action)
		via := "rule " + name
		if event == "1" {
			via = "view"
			for _, r := range reads(parsed) { // a view of a view that calls
				all = append(all, edge{from: on, events: Select, to: r, toEvents: Select, via: via})
			}
			if target := base(parsed); view && target != 0 {
				for _, e := range []Events{Insert, Update, Delete} {
					all = append(all, edge{from: on, events: e, to: target, toEvents: e, via: via})
				}
			}
		}
		for _, w := range writes(parsed) {
			all = append(all, edge{from: on, events: events, to: w.relation, toEvents: w.events, via: via})
		}
		for _, f := range calls(action) {
			all = append(all, edge{from: on, events: events, function: f, via: via})
		}
		return nil
	})
	return all, err
}

// readForeignKeys: TRUNCATE ... CASCADE follows every one.
func readForeignKeys(ctx context.Context, q Querier) ([]edge, error) {
	rows, err := q.Query(ctx, `
		SELECT conrelid, confrelid, conname::text, confdeltype::text, confupdtype::text FROM pg_catalog.pg_constraint
		WHERE contype = 'f' ORDER BY oid`)
	if err != nil {
		return nil, err
	}
	var all []edge
	var child, parent uint32
	var name, onDelete, onUpdate string
	_, err = pgx.ForEachRow(rows, []any{&child, &parent, &name, &onDelete, &onUpdate}, func() error {
		does := map[string]Events{"c": Delete, "n": Update, "d": Update}[onDelete]
		if does != 0 {
			all = append(all, edge{from: parent, events: Delete, to: child, toEvents: does, via: "foreign key " + name})
		}
		if onUpdate == "c" || onUpdate == "n" || onUpdate == "d" {
			all = append(all, edge{from: parent, events: Update, to: child, toEvents: Update, via: "foreign key " + name})
		}
		all = append(all, edge{from: parent, events: Truncate, to: child, toEvents: Truncate, via: "foreign key " + name})
		return nil
	})
	return all, err
}

func readTriggers(ctx context.Context, q Querier) ([]edge, error) {
	rows, err := q.Query(ctx, `
		SELECT tgrelid, tgname::text, tgfoid, tgtype::int4 FROM pg_catalog.pg_trigger
		WHERE (NOT tgisinternal OR tgparentid <> 0) AND tgfoid >= 16384 AND tgenabled <> 'D' ORDER BY oid`)
	if err != nil {
		return nil, err
	}
	var all []edge
	var on, function uint32
	var name string
	var kind int
	_, err = pgx.ForEachRow(rows, []any{&on, &name, &function, &kind}, func() error {
		all = append(all, edge{from: on, events: triggerEvents(kind), function: function, via: "trigger " + name})
		return nil
	})
	return all, err
}

// readExpressions: defaults, generated columns, checks, policies and indexes that call a function of the users.
func readExpressions(ctx context.Context, q Querier) ([]edge, error) {
	rows, err := q.Query(ctx, `
		WITH d AS (SELECT classid, objid, refobjid FROM pg_catalog.pg_depend
		  WHERE refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND refobjid >= 16384)
		SELECT a.adrelid, d.refobjid, 'a default or generated column', 3 FROM d JOIN pg_catalog.pg_attrdef a ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND a.oid = d.objid
		UNION SELECT c.conrelid, d.refobjid, 'check ' || c.conname, 3 FROM d JOIN pg_catalog.pg_constraint c ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND c.oid = d.objid WHERE c.conrelid <> 0
		UNION SELECT p.polrelid, d.refobjid, 'policy ' || p.polname, 23 FROM d JOIN pg_catalog.pg_policy p ON d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass AND p.oid = d.objid
		UNION SELECT i.indrelid, d.refobjid, 'index ' || r.relname, 3 FROM d JOIN pg_catalog.pg_index i ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND i.indexrelid = d.objid JOIN pg_catalog.pg_class r ON r.oid = i.indexrelid
		UNION SELECT at.attrelid, d.refobjid, 'domain ' || t.typname, 3 FROM d JOIN pg_catalog.pg_constraint c ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND c.oid = d.objid
		  JOIN pg_catalog.pg_type t ON t.oid = c.contypid JOIN pg_catalog.pg_attribute at ON at.atttypid = t.oid
		ORDER BY 1, 2, 3`)
	if err != nil {
		return nil, err
	}
	var all []edge
	var on, function uint32
	var what string
	var events int
	_, err = pgx.ForEachRow(rows, []any{&on, &function, &what, &events}, func() error {
		all = append(all, edge{from: on, events: Events(events), function: function, via: what})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("expressions: %w", err)
	}
	return all, nil
}
