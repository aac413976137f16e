package pgfence

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
)

const presented = "fence.token" // key of a connection's custom data: the list that its session has

// resetLimit bounds how long a connection that goes back to the pool may take to forget its token.
const resetLimit = 5 * time.Second

// Configure makes a pool present the tokens of the context that a connection is acquired with: for applications that do
// not begin transactions themselves. A connection without a lease in its context has no token, so writes to fenced tables
// fail there, as they should. It costs a round trip for each connection that is taken under a lease, and another when it
// goes back; Begin costs none. Hooks that are set already are called as well. Through a transaction pooler use Begin.
func Configure(cfg *pgxpool.Config) {
	prepare, release := cfg.PrepareConn, cfg.AfterRelease
	if prepare == nil && cfg.BeforeAcquire != nil {
		before := cfg.BeforeAcquire
		prepare = func(ctx context.Context, c *pgx.Conn) (bool, error) { return before(ctx, c), nil }
	}
	cfg.PrepareConn = func(ctx context.Context, c *pgx.Conn) (bool, error) {
		if ok, err := PrepareConn(ctx, c); !ok || err != nil {
			return ok, err
		}
		if prepare != nil {
			return prepare(ctx, c)
		}
		return true, nil
	}
	cfg.AfterRelease = func(c *pgx.Conn) bool {
		return (release == nil || release(c)) && AfterRelease(c)
	}
	if cfg.ConnConfig.Tracer == nil {
		cfg.ConnConfig.Tracer = Tracer{}
	} else {
		cfg.ConnConfig.Tracer = multitracer.New(cfg.ConnConfig.Tracer, Tracer{})
	}
}

// PrepareConn presents the tokens of ctx's leases on the connection, for pgxpool.Config.PrepareConn. A lease that has
// ended is an error, and the connection stays in the pool.
func PrepareConn(ctx context.Context, c *pgx.Conn) (bool, error) {
	leases := leasesOf(ctx)
	l, err := list(leases)
	if err != nil && !errors.Is(err, ErrNoLease) {
		return true, err
	}
	want := l.String()
	data := c.PgConn().CustomData()
	if have, _ := data[presented].(string); have == want {
		return true, nil
	}
	statement := "SET fence.token = '" + want + "'"
	if want == "" {
		statement = reset
	}
	data[presented] = want
	if _, err := c.Exec(ctx, statement); err != nil {
		note(leases, err)
		return false, err
	}
	return true, nil
}

const reset = "RESET fence.token"

// AfterRelease takes the token away, for pgxpool.Config.AfterRelease. False, when it cannot: then the pool closes the
// connection.
func AfterRelease(c *pgx.Conn) bool {
	data := c.PgConn().CustomData()
	if have, _ := data[presented].(string); have == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), resetLimit)
	defer cancel()
	if _, err := c.Exec(ctx, reset); err != nil {
		return false
	}
	delete(data, presented)
	return true
}

// Tracer notes what the database answers to statements whose context has a lease, for pgx.ConnConfig.Tracer.
type Tracer struct{}

var (
	_ pgx.QueryTracer    = Tracer{}
	_ pgx.BatchTracer    = Tracer{}
	_ pgx.CopyFromTracer = Tracer{}
)

func (Tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (Tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	Note(ctx, d.Err)
}

func (Tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (Tracer) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	Note(ctx, d.Err)
}

func (Tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	Note(ctx, d.Err)
}

func (Tracer) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return ctx
}

func (Tracer) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceCopyFromEndData) {
	Note(ctx, d.Err)
}
