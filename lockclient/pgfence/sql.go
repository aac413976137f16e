package pgfence

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// SQLBeginner is a *sql.DB or a *sql.Conn.
type SQLBeginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// Tx is a transaction that has presented its token. Its own methods check the leases before each statement and note what
// the database answers; those of a prepared statement do not: give their errors to Note. An error that arrives with the
// rows (sql.Rows.Err) is noted by Commit at the latest, for the transaction has failed then.
type Tx struct {
	*sql.Tx
	leases []*lockclient.Lease
}

// BeginTx begins a transaction that presents the tokens of ctx's leases. database/sql rolls it back when ctx ends, as it
// does when a lease is lost.
func BeginTx(ctx context.Context, db SQLBeginner, opts *sql.TxOptions) (*Tx, error) {
	leases := leasesOf(ctx)
	l, err := list(leases)
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	t := &Tx{Tx: tx, leases: leases}
	if _, err := t.ExecContext(ctx, setLocal(l)); err != nil {
		tx.Rollback()
		return nil, err
	}
	return t, nil
}

// InTx runs f in a transaction of BeginTx, and commits unless f fails.
func InTx(ctx context.Context, db SQLBeginner, opts *sql.TxOptions, f func(*Tx) error) error {
	tx, err := BeginTx(ctx, db, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		note(tx.leases, err)
		return err
	}
	return tx.Commit()
}

func (t *Tx) check() error {
	for _, l := range t.leases {
		if err := l.Check(); err != nil {
			return err
		}
	}
	return nil
}

// ended is err with the reason for it: a lost lease ends its context, and the transaction with it.
func (t *Tx) ended(err error) error {
	note(t.leases, err)
	if errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrTxDone) {
		for _, l := range t.leases {
			if lost := l.Err(); lost != nil {
				return errors.Join(err, lost)
			}
		}
	}
	return err
}

func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	r, err := t.Tx.ExecContext(ctx, query, args...)
	return r, t.ended(err)
}

func (t *Tx) Exec(query string, args ...any) (sql.Result, error) {
	return t.ExecContext(context.Background(), query, args...)
}

func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	r, err := t.Tx.QueryContext(ctx, query, args...)
	return r, t.ended(err)
}

func (t *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	return t.QueryContext(context.Background(), query, args...)
}

// QueryRowContext asks even when a lease has ended, for a sql.Row cannot be made to fail: the transaction does.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	t.check()
	r := t.Tx.QueryRowContext(ctx, query, args...)
	note(t.leases, r.Err())
	return r
}

func (t *Tx) QueryRow(query string, args ...any) *sql.Row {
	return t.QueryRowContext(context.Background(), query, args...)
}

// Commit commits unless a lease has ended: then it rolls back and returns why.
func (t *Tx) Commit() error {
	if err := t.check(); err != nil {
		t.Tx.Rollback()
		return err
	}
	return t.ended(t.Tx.Commit())
}
