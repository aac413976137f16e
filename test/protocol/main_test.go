// Package protocol tests the corners of PostgreSQL's protocol through the built proxy: messages of great size, sessions
// that drivers seldom ask for, and texts in encodings that hide quotes.
package protocol

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

const user = "teller"

const schema = `
CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL, name text);
INSERT INTO acct SELECT g, 0 FROM generate_series(1, 3) g;
CREATE TABLE log (v text);
ALTER TABLE acct OWNER TO teller; ALTER TABLE log OWNER TO teller;`

// database makes one with acct, which is to be fenced, and log, which is not.
func database(t testing.TB, c *pgtest.Cluster) (db string) {
	t.Helper()
	db = c.NewDatabase(t)
	c.Exec(t, "postgres", `DO $$ BEGIN IF to_regrole('teller') IS NULL THEN CREATE ROLE teller LOGIN REPLICATION; END IF; END $$`)
	c.Exec(t, db, schema)
	proxytest.Install(t, c.DSN(db, "postgres"))
	return db
}

// start makes a database and a proxy in front of it, with one fence "acct" on table acct.
func start(t testing.TB, flags ...string) (c *pgtest.Cluster, db string, p *proxytest.Proxy) {
	t.Helper()
	c = pgtest.Shared(t)
	db = database(t, c)
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

// number asks a connection for one integer.
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
func nextToken() string { return fmt.Sprint(lastToken.Add(1) + 1000) }
