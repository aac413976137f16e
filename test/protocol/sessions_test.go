package protocol

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// A notification reaches a client that waits and says nothing.
func TestNotificationWhileIdle(t *testing.T) {
	c, db, p := start(t)
	for _, token := range []string{"", nextToken()} {
		conn := p.Connect(t, db, user, token)
		ctx, done := context.WithTimeout(context.Background(), waitLimit)
		if _, err := conn.Exec(ctx, "LISTEN news"); err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 1)
		go func() {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				got <- err.Error()
				return
			}
			got <- n.Payload
		}()
		c.Exec(t, db, "NOTIFY news, 'hello'")
		if s := <-got; s != "hello" {
			t.Errorf("token %q: %s", token, s)
		}
		done()
	}
}

// Large objects by SQL functions. They write pg_largeobject, which no fence names, so that they need no guard.
func TestLargeObjectsBySQL(t *testing.T) {
	_, db, p := start(t)
	conn := p.Connect(t, db, user, nextToken())
	ctx := context.Background()
	oid := number(t, conn, "SELECT lo_from_bytea(0, 'abc')::bigint")
	p.Connect(t, db, user, nextToken())
	if _, err := conn.Exec(ctx, "SELECT lo_put($1::bigint::oid, 0, 'x')", oid); err != nil {
		t.Errorf("a stale session: %v", err)
	}
	if _, err := conn.Exec(ctx, "UPDATE acct SET bal = length(lo_get($1::bigint::oid))", oid); code(err) != "ZF001" {
		t.Errorf("a stale session's write: %v", err)
	}
	var content []byte
	if err := conn.QueryRow(ctx, "SELECT lo_get($1::bigint::oid)", oid).Scan(&content); err != nil || string(content) != "xbc" {
		t.Errorf("%q, %v", content, err)
	}
}

// A replication=database session takes ordinary SQL. Where such sessions are allowed they are inspected as any other.
func TestReplicationSessionIsFenced(t *testing.T) {
	c := pgtest.Shared(t)
	db := database(t, c)
	file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
	if err := os.WriteFile(file, []byte("replication: allow\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--config", file)
	ctx := context.Background()
	open := func(token string) *pgconn.PgConn {
		config, err := pgconn.ParseConfig(p.DSN(db, user, "replication", "database"))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			config.RuntimeParams["fence.token"] = token
		}
		conn, err := pgconn.ConnectConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(ctx) })
		return conn
	}
	run := func(conn *pgconn.PgConn, sql string) string {
		_, err := conn.Exec(ctx, sql).ReadAll()
		return code(err)
	}
	direct := c.Connect(t, db, "postgres")
	fresh, none := open(nextToken()), open("")
	// A walsender knows no extended protocol: nothing may be prepared in it.
	for range 3 {
		if got := run(fresh, "UPDATE acct SET bal = bal + 1"); got != "" {
			t.Errorf("fresh: %s", got)
		}
	}
	if got := run(fresh, "SELECT 1; UPDATE acct SET bal = bal + 1"); got != "" {
		t.Errorf("fresh, in a string: %s", got)
	}
	if got := number(t, direct, "SELECT max(bal) FROM acct"); got != 4 {
		t.Errorf("balance %d", got)
	}
	for _, command := range []string{"IDENTIFY_SYSTEM", "START_REPLICATION SLOT s LOGICAL 0/0"} {
		if got := run(fresh, command); got != "ZF004" {
			t.Errorf("%s: %s", command, got)
		}
	}
	c.Exec(t, db, "UPDATE acct SET bal = 0")
	p.Connect(t, db, user, nextToken())
	for name, conn := range map[string]*pgconn.PgConn{"stale": fresh, "without a token": none} {
		if got := run(conn, "UPDATE acct SET bal = 2"); !strings.HasPrefix(got, "ZF") {
			t.Errorf("%s: %s", name, got)
		}
		if got := run(conn, "SELECT 1; UPDATE acct SET bal = 2"); !strings.HasPrefix(got, "ZF") {
			t.Errorf("%s, in a string: %s", name, got)
		}
		if got := run(conn, "SELECT * FROM log"); got != "" {
			t.Errorf("%s, a read: %s", name, got)
		}
	}
	if got := number(t, direct, "SELECT max(bal) FROM acct"); got != 0 {
		t.Errorf("balance %d", got)
	}
}

// pgdog PR848: Terminate inside a transaction ends the server's session at once, and its guard with it.
func TestTerminateInATransaction(t *testing.T) {
	c, db, p := start(t)
	conn := p.Connect(t, db, user, nextToken())
	if _, err := conn.Exec(context.Background(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(context.Background(), "UPDATE acct SET bal = 1"); err != nil {
		t.Fatal(err)
	}
	conn.Close(context.Background())
	begin := time.Now()
	next := p.Connect(t, db, user, nextToken()) // a raise, which waits for the guard
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the raise waited %v", took)
	}
	if _, err := next.Exec(context.Background(), "UPDATE acct SET bal = 2"); err != nil {
		t.Error(err)
	}
	if got := number(t, c.Connect(t, db, "postgres"), "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%' AND datname = current_database()"); got != 0 {
		t.Errorf("%d sessions are left in a transaction", got)
	}
}

// Notices keep their places among rows, as PostgreSQL sends both, by either protocol and behind a guard.
func TestNoticesKeepTheirOrder(t *testing.T) {
	c, db, p := start(t)
	c.Exec(t, db, `CREATE FUNCTION note(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'row %', $1; RETURN $1; END $$`)
	ctx := context.Background()
	for _, sql := range []string{
		"SELECT note(id), repeat('x', 9000) FROM acct",
		"UPDATE acct SET bal = note(id) WHERE id < 4 RETURNING id, repeat('x', 9000)",
		"WITH w AS (UPDATE acct SET bal = note(id) RETURNING id) SELECT note(id + 10) FROM w",
	} {
		order := func(dsn string, extended bool) string {
			config, err := pgconn.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { got = append(got, n.Message) }
			conn, err := pgconn.ConnectConfig(ctx, config)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			read := func(r *pgconn.ResultReader) {
				for r.NextRow() {
					got = append(got, "id "+string(r.Values()[0]))
				}
				if _, err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the guard's statements are prepared by then
				got = append(got, "again")
				if extended {
					read(conn.ExecParams(ctx, sql, nil, nil, nil, nil))
					continue
				}
				results := conn.Exec(ctx, sql)
				for results.NextResult() {
					read(results.ResultReader())
				}
				if err := results.Close(); err != nil {
					t.Fatal(err)
				}
			}
			return strings.Join(got, ", ")
		}
		for _, extended := range []bool{false, true} {
			want := order(c.DSN(db, user), extended)
			if got := order(p.DSN(db, user, "fence.token", nextToken()), extended); got != want || !strings.Contains(want, "row 1") {
				t.Errorf("%s\n got %s\nwant %s", sql, got, want)
			}
		}
	}
}
