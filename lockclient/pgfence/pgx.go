package pgfence

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// PgxBeginner is a *pgx.Conn, a *pgxpool.Pool or a *pgxpool.Conn.
type PgxBeginner interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Begin begins a transaction that presents the tokens of ctx's leases, in one round trip. The leases are checked before
// each statement, and what the database answers is noted. Unlike database/sql pgx does not end a transaction when ctx
// ends: its statements have contexts of their own, and the check.
func Begin(ctx context.Context, db PgxBeginner, opts pgx.TxOptions) (pgx.Tx, error) {
	leases := leasesOf(ctx)
	l, err := list(leases)
	if err != nil {
		return nil, err
	}
	opts.BeginQuery = beginSQL(opts) + "; " + setLocal(l)
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		note(leases, err)
		return nil, err
	}
	return &pgxTx{Tx: tx, guarded: guarded(leases)}, nil
}

// InPgxTx runs f in a transaction of Begin, and commits unless f fails.
func InPgxTx(ctx context.Context, db PgxBeginner, opts pgx.TxOptions, f func(pgx.Tx) error) error {
	tx, err := Begin(ctx, db, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// beginSQL is what pgx would send.
func beginSQL(o pgx.TxOptions) string {
	if o.BeginQuery != "" {
		return o.BeginQuery
	}
	s := "begin"
	if o.IsoLevel != "" {
		s += " isolation level " + string(o.IsoLevel)
	}
	if o.AccessMode != "" {
		s += " " + string(o.AccessMode)
	}
	if o.DeferrableMode != "" {
		s += " " + string(o.DeferrableMode)
	}
	return s
}

// guarded are the leases whose tokens were presented.
type guarded []*lockclient.Lease

func (g guarded) check() error {
	for _, l := range g {
		if err := l.Check(); err != nil {
			return err
		}
	}
	return nil
}

func (g guarded) note(err error) error {
	note(g, err)
	return err
}

type pgxTx struct {
	pgx.Tx
	guarded
}

func (t *pgxTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	tx, err := t.Tx.Begin(ctx)
	if err != nil {
		return nil, t.note(err)
	}
	return &pgxTx{tx, t.guarded}, nil
}

func (t *pgxTx) Commit(ctx context.Context) error {
	if err := t.check(); err != nil {
		t.Tx.Rollback(context.WithoutCancel(ctx))
		return err
	}
	return t.note(t.Tx.Commit(ctx))
}

func (t *pgxTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.check(); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := t.Tx.Exec(ctx, sql, args...)
	return tag, t.note(err)
}

func (t *pgxTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.check(); err != nil {
		return failed{err: err}, err
	}
	r, err := t.Tx.Query(ctx, sql, args...)
	return rows{r, t.guarded}, t.note(err)
}

func (t *pgxTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.check(); err != nil {
		return failed{err: err}
	}
	return row{t.Tx.QueryRow(ctx, sql, args...), t.guarded}
}

func (t *pgxTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	n, err := t.Tx.CopyFrom(ctx, table, columns, src)
	return n, t.note(err)
}

func (t *pgxTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.check(); err != nil {
		return failedBatch{err}
	}
	return batch{t.Tx.SendBatch(ctx, b), t.guarded}
}

func (t *pgxTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	d, err := t.Tx.Prepare(ctx, name, sql)
	return d, t.note(err)
}
