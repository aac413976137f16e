package triggers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// Install does what Compare lists, in one transaction: all of it or nothing. It returns the plan that it carried out.
// Creating a trigger waits for the writers of its table, and new ones wait behind it: after wait (at least 1 ms; 0 for
// 5 s) it gives up with 55P03, and nothing has changed. conn is not in a transaction. Its role may create triggers on the
// tables (TRIGGER), and owns those whose triggers are to be enabled.
func Install(ctx context.Context, conn *pgx.Conn, c Config, wait time.Duration) (*Plan, error) {
	return change(ctx, conn, wait, func(tx pgx.Tx) (*Plan, error) {
		s, err := ask(ctx, tx)
		if err != nil {
			return nil, err
		}
		if !s.installed {
			return nil, ErrNoFunctions
		}
		return Compare(ctx, tx, c)
	})
}

// Removal lists what Remove would do: drop every trigger of ours in the database, the event triggers too.
func Removal(ctx context.Context, conn *pgx.Conn) (*Plan, error) { return removal(ctx, conn) }

// Remove takes all triggers away in one transaction. Its role owns the tables, and is a superuser if there are event
// triggers.
func Remove(ctx context.Context, conn *pgx.Conn, wait time.Duration) (*Plan, error) {
	return change(ctx, conn, wait, func(tx pgx.Tx) (*Plan, error) { return removal(ctx, tx) })
}

func removal(ctx context.Context, q catalog.Querier) (*Plan, error) {
	p := &Plan{}
	s, err := ask(ctx, q)
	if err != nil {
		return nil, err
	}
	present, err := read(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, e := range eventTriggers {
		if slices.Contains(s.watches, e.name) {
			p.step("DROP EVENT TRIGGER IF EXISTS "+e.name+";", "the database: drop the event trigger %s", e.name)
		}
	}
	var all []found
	for _, list := range present {
		for _, t := range list {
			if t.function != "" && !t.clone {
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int { return int(a.oid) - int(b.oid) })
	for _, t := range all {
		table := pgx.Identifier{t.schema, t.relation}.Sanitize()
		p.step(drop(pgx.Identifier{t.name}.Sanitize(), table), "%s: drop the trigger %s", table, t.name)
	}
	return p, nil
}

func change(ctx context.Context, conn *pgx.Conn, wait time.Duration, plan func(pgx.Tx) (*Plan, error)) (*Plan, error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	_, err = tx.Exec(ctx, fmt.Sprintf("SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL standard_conforming_strings = on; SET LOCAL lock_timeout = %d", lockTimeout(wait)))
	if err == nil {
		_, err = tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock(1178947139, 0)") // as tokens.Install: one at a time
	}
	if err != nil {
		return nil, err
	}
	p, err := plan(tx)
	if err != nil {
		return nil, err
	}
	for _, s := range p.Steps {
		if _, err := tx.Exec(ctx, s.SQL); err != nil {
			return nil, stepError(s, err)
		}
	}
	// What has come to be between the look and the locks.
	again, err := plan(tx)
	if err != nil {
		return nil, err
	}
	if len(again.Steps) > 0 {
		return nil, fmt.Errorf("the database changed meanwhile, nothing was done: run it again (%s)", again.Steps[0].Text)
	}
	return p, tx.Commit(ctx)
}

// lockTimeout is in milliseconds.
func lockTimeout(wait time.Duration) int64 {
	if wait == 0 {
		wait = 5 * time.Second
	}
	return max(wait.Milliseconds(), 1)
}

// whoMay has the rights that a step takes.
func whoMay(sql string) string {
	switch {
	case strings.Contains(sql, " EVENT TRIGGER "):
		return "; a superuser can"
	case strings.Contains(sql, "ROLE fence_owner"):
		return "; a superuser can, or the role that installed schema fence, if it may create triggers on the table"
	case strings.HasPrefix(sql, "CREATE "):
		return "; the table's owner or a superuser can, or grant TRIGGER on the table"
	}
	return "; the table's owner or a superuser can"
}

func stepError(s Step, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	hint := ""
	switch pg.Code {
	case "42501":
		hint = whoMay(s.SQL)
	case "55P03":
		hint = "; somebody is writing the table: try again at a quieter time, or wait longer"
	}
	return fmt.Errorf("%s: %w%s; nothing was done", s.Text, err, hint)
}
