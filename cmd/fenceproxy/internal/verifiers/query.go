package verifiers

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fenceproxy/fenceproxy/wire"
)

// DefaultQuery needs the rights of a superuser: others name a SECURITY DEFINER function.
const DefaultQuery = `SELECT rolname, rolpassword, rolvaliduntil FROM pg_catalog.pg_authid WHERE rolname = $1`

// askTime bounds a question, the connection for it and the wait for others' questions included.
const askTime = 5 * time.Second

// maxName is NAMEDATALEN-1.
const maxName = 63

// query asks the database, one question at a time on one connection, which is opened when it is needed.
type query struct {
	config *pgx.ConnConfig
	sql    string
	turn   chan *pgx.Conn // nil in it: not open
}

func newQuery(dsn, sql string) (*query, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	// Names mean here what they mean to nobody else: no client has a say in this session, nor has a schema that others
	// may create objects in (CVE-2025-12819 of pgbouncer).
	c.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	c.RuntimeParams["application_name"] = "fenceproxy"
	c.RuntimeParams["client_encoding"] = "UTF8"
	q := &query{config: c, sql: sql, turn: make(chan *pgx.Conn, 1)}
	q.turn <- nil
	return q, nil
}

// answer is what the database has said of a user.
type answer struct {
	verifier *wire.ScramVerifier // nil: none
	until    time.Time           // zero: for ever
	at       time.Time
}

// valid is the verifier unless it has expired.
func (a answer) valid(now time.Time) *wire.ScramVerifier {
	if !a.until.IsZero() && !now.Before(a.until) {
		return nil
	}
	return a.verifier
}

// ask waits for its turn. known is asked then: the one before may have asked the same.
func (q *query) ask(ctx context.Context, user string, known func() (answer, bool)) (answer, error) {
	// Such a name the server would refuse as a parameter, or cut to the name of somebody else.
	if !utf8.ValidString(user) || len(user) > maxName {
		return answer{at: time.Now()}, nil
	}
	ctx, done := context.WithTimeout(ctx, askTime)
	defer done()
	var conn *pgx.Conn
	select {
	case conn = <-q.turn:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	defer func() { q.turn <- conn }()
	if a, ok := known(); ok {
		return a, nil
	}
	for reused := conn != nil; ; reused = false {
		if conn == nil {
			var err error
			if conn, err = pgx.ConnectConfig(ctx, q.config); err != nil {
				conn = nil
				return answer{}, err
			}
		}
		a, err := q.run(ctx, conn, user)
		if err == nil {
			return a, nil
		}
		if conn.IsClosed() || ctx.Err() != nil {
			conn.Close(ctx)
			conn = nil
		}
		// A connection that has been idle may have ended with its server.
		if !reused || conn != nil || ctx.Err() != nil {
			return answer{}, err
		}
	}
}

var (
	errShape  = errors.New("auth_query must return the user, the verifier and, if it wants to, until when it is valid (timestamptz)")
	errOthers = errors.New("auth_query returns another user than the one asked for, or several rows")
)

func (q *query) run(ctx context.Context, conn *pgx.Conn, user string) (answer, error) {
	a := answer{at: time.Now()}
	rows, err := conn.Query(ctx, q.sql, pgx.QueryExecModeDescribeExec, user)
	if err != nil {
		return a, clean(err)
	}
	defer rows.Close()
	var name, secret *string
	var until pgtype.Timestamptz
	columns := []any{&name, &secret, &until}
	for rows.Next() {
		n := len(rows.FieldDescriptions())
		if n < 2 || n > 3 || rows.Scan(columns[:n]...) != nil {
			return a, errShape
		}
		if name == nil || *name != user || a.verifier != nil {
			return a, errOthers
		}
		if secret != nil {
			a.verifier, _ = wire.ParseScramVerifier(*secret) // md5 is none
		}
		if until.Valid && until.InfinityModifier != pgtype.Infinity {
			a.until = until.Time
		}
	}
	return a, clean(rows.Err())
}

// clean leaves out of an error what could quote a verifier.
func clean(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Errorf("auth_query: %s (SQLSTATE %s)", pg.Message, pg.Code)
	}
	return err
}

func (q *query) close() {
	if conn := <-q.turn; conn != nil {
		ctx, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		conn.Close(ctx)
	}
	q.turn <- nil
}
