package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// database is the way to the lock database. Renewals have connections of their own, so that a crowd of waiters cannot
// starve them. Whatever may wait long takes a connection from neither.
type database struct {
	config   *pgx.ConnConfig
	ask      *pgxpool.Pool // requests, looks, eviction
	keep     *pgxpool.Pool // renewals and releases
	name     string
	systemID string
}

const (
	askers         = 8
	keepers        = 4
	connectTimeout = 5 * time.Second
)

func newDatabase(base *pgxpool.Config) *database {
	c := base.ConnConfig
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip, and nothing kept in a session that a pooler shares
	if c.ConnectTimeout == 0 || c.ConnectTimeout > connectTimeout {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "fenceproxy lock"
	}
	c.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			conn.CustomData()[warning] = n.Message
		}
	}
	base.MinConns, base.MinIdleConns, base.MaxConnIdleTime = 0, 0, time.Minute
	pool := func(size int32) *pgxpool.Pool {
		own := base.Copy()
		own.MaxConns = size
		p, err := pgxpool.NewWithConfig(context.Background(), own) // does not connect
		if err != nil {
			panic(err) // only for a configuration that ParseConfig did not make
		}
		return p
	}
	return &database{config: c, ask: pool(askers), keep: pool(keepers)}
}

// closeLimit bounds Close. A server that is frozen does not answer a farewell; what is not closed by then is closed behind
// the caller's back.
const closeLimit = time.Second

func soon(f func()) {
	done := make(chan struct{}, 1)
	go func() {
		f()
		done <- struct{}{}
	}()
	select {
	case <-done:
	case <-time.After(closeLimit):
	}
}

func (d *database) close() {
	d.ask.Close()
	d.keep.Close()
}

// greet learns which server this is, and that it has the schema.
func (d *database) greet(ctx context.Context) error {
	conn, err := d.ask.Acquire(ctx)
	if err != nil {
		return fault(ctx, err)
	}
	defer conn.Release()
	err = conn.QueryRow(ctx, "SELECT system_identifier::text, pg_catalog.current_database()::text FROM pg_catalog.pg_control_system()").Scan(&d.systemID, &d.name)
	if err == nil {
		err = tokens.CheckVersion(ctx, conn.Conn())
	}
	return fault(ctx, err)
}

func (d *database) issuer() string { return "postgres/" + d.systemID + "/" + d.name }

const warning = "fence.warning" // key of a connection's custom data

// querier is a connection, or a pool that has some.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// row asks one question and reads the answer. What was lost to others' work at the same time is asked again.
func (d *database) row(ctx context.Context, pool *pgxpool.Pool, sql string, args []any, into ...any) error {
	for attempt := 0; ; attempt++ {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return fault(ctx, err)
		}
		err = rowOf(ctx, conn.Conn(), sql, args, into...)
		conn.Release()
		if state(err) == "25006" { // the server has become a standby: all connections lead there
			pool.Reset()
		}
		if attempt < 3 && (state(err) == "40001" || state(err) == "40P01") {
			continue
		}
		return fault(ctx, err)
	}
}

func rowOf(ctx context.Context, conn *pgx.Conn, sql string, args []any, into ...any) error {
	data := conn.PgConn().CustomData()
	delete(data, warning)
	if err := conn.QueryRow(ctx, sql, args...).Scan(into...); err != nil {
		return err
	}
	if w, ok := data[warning]; ok {
		// "canceling wait for synchronous replication": committed here, and perhaps nowhere else
		return fmt.Errorf("%w: %v", lockclient.ErrUnavailable, w)
	}
	return nil
}

func state(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// fault sorts an error: ErrUnavailable is in it when asking again is sensible. Errors of the context stay what they are;
// a timeout that is not the context's is the connection's.
func fault(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, lockclient.ErrUnavailable) || errors.Is(err, lockclient.ErrLost) {
		return err
	}
	code := state(err)
	switch {
	case code == "3F000", code == "42883", code == "42P01", code == "42703":
		return fmt.Errorf("%w: run fenceproxy init: %w", tokens.ErrOlderSchema, err)
	case code == "42501":
		return fmt.Errorf("the role of the lock database must be a member of fence_control: %w", err)
	case code == "":
		if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
		if errors.Is(err, tokens.ErrNoSchema) || errors.Is(err, tokens.ErrOlderSchema) || errors.Is(err, tokens.ErrNewerSchema) {
			return err
		}
		return fmt.Errorf("%w: %w", lockclient.ErrUnavailable, err) // the connection
	}
	switch code[:2] {
	case "08", "40", "53", "55", "57", "58", "25", "XX": // connection, rollback, resources, not ready, intervention, I/O, standby
		return fmt.Errorf("%w: %w", lockclient.ErrUnavailable, err)
	}
	return err
}
