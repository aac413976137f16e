// Package e2e tests the built proxy in front of a real PostgreSQL, through drivers, psql, pgbench and raw messages.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func TestMain(m *testing.M) { pgtest.Main(m, proxytest.Cleanup) }

// waitLimit ends a poll for something that never comes; a passing run never waits for it.
const waitLimit = 20 * time.Second

const schema = `
CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL);
INSERT INTO acct SELECT g, 0 FROM generate_series(1, 3) g;
CREATE TABLE jobs (id int PRIMARY KEY, state text NOT NULL);
INSERT INTO jobs VALUES (1, 'new');
CREATE TABLE log (v int);
CREATE FUNCTION bump() RETURNS int LANGUAGE sql AS 'UPDATE acct SET bal = bal + 1 WHERE id = 1; SELECT 1';
CREATE PROCEDURE pay() LANGUAGE plpgsql AS $$ BEGIN UPDATE acct SET bal = bal + 1 WHERE id = 1; END $$;
ALTER TABLE acct OWNER TO teller; ALTER TABLE jobs OWNER TO teller; ALTER TABLE log OWNER TO teller;
GRANT CREATE ON SCHEMA public TO teller;`

const user = "teller"

// fenced makes a database with acct, jobs (both to be fenced) and log, owned by the application role, and the fence schema.
func fenced(t testing.TB, c *pgtest.Cluster) (db string) {
	t.Helper()
	db = unfenced(t, c)
	proxytest.Install(t, c.DSN(db, "postgres"))
	return db
}

// unfenced is the same without the fence schema.
func unfenced(t testing.TB, c *pgtest.Cluster) (db string) {
	t.Helper()
	db = c.NewDatabase(t)
	c.Exec(t, "postgres", `DO $$ BEGIN IF to_regrole('teller') IS NULL THEN CREATE ROLE teller LOGIN; END IF; END $$`)
	c.Exec(t, db, schema)
	return db
}

// start makes a database and a proxy in front of it, with one fence "acct" on table acct.
func start(t testing.TB, flags ...string) (c *pgtest.Cluster, db string, p *proxytest.Proxy) {
	t.Helper()
	c = pgtest.Shared(t)
	db = fenced(t, c)
	return c, db, proxytest.Start(t, c.DSN(db, "postgres"), append([]string{"--fence", "acct=acct"}, flags...)...)
}

// code is an error's SQLSTATE, "" for none.
func code(err error) string {
	if err == nil {
		return ""
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return "not from PostgreSQL: " + err.Error()
}

// run sends one string in the simple protocol and returns the SQLSTATE of its error.
func run(conn *pgx.Conn, sql string) string {
	_, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	return code(err)
}

// must is run for statements that have to succeed.
func must(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(context.Background(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// want checks the SQLSTATE of a statement.
func want(t testing.TB, conn *pgx.Conn, sql, sqlstate string) {
	t.Helper()
	if got := run(conn, sql); got != sqlstate {
		t.Errorf("%s: SQLSTATE %q, want %q", sql, got, sqlstate)
	}
}

// number asks a direct connection for one integer.
func number(t testing.TB, conn *pgx.Conn, sql string, args ...any) (n int64) {
	t.Helper()
	if err := conn.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// eventually polls a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

var lastToken atomic.Int64

// nextToken is higher than every token used before in this test binary.
func nextToken() int64 { return lastToken.Add(1) + 1000 }

func text(token int64) string { return fmt.Sprint(token) }
