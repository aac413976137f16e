package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// Statements that no guard can stand in front of, or that would take the fence itself away, are refused whatever the
// token, and nothing changes.
func TestStatementsThatCannotBeFencedAreRefused(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	c.Exec(t, db, formSetup)
	p := proxytest.Start(t, c.DSN(db, "postgres"), formFences...)
	conn := p.Connect(t, db, "postgres", billing(nextToken())) // a superuser: PostgreSQL itself would let all of this pass
	direct := c.Connect(t, db, "postgres")
	var before string
	if err := direct.QueryRow(context.Background(), formFingerprint).Scan(&before); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"ALTER TABLE victim DETACH PARTITION child CONCURRENTLY",
		"DROP SCHEMA fence CASCADE",
		"ALTER SCHEMA fence RENAME TO gone",
		"DROP TABLE fence.mark",
		"UPDATE fence.mark SET token = 1",
		"DELETE FROM fence.mark",
		"TRUNCATE fence.mark",
		"ALTER TABLE fence.mark DISABLE TRIGGER ALL",
		"DROP FUNCTION fence.guard(text[], text)",
		"CREATE OR REPLACE FUNCTION fence.guard(text[], text) RETURNS text LANGUAGE sql AS 'SELECT 1::text'",
	} {
		want(t, conn, sql, "ZF004")
		if got := code(extended(conn, sql)); got != "ZF004" {
			t.Errorf("%s, extended: SQLSTATE %q, want ZF004", sql, got)
		}
	}
	var after string
	if err := direct.QueryRow(context.Background(), formFingerprint).Scan(&after); err != nil || after != before {
		t.Errorf("the data changed: %v", err)
	}
	want(t, conn, "UPDATE acct SET bal = 1", "")
}

// extended sends one statement without parameters in the extended protocol (pgx's Exec would use the simple one).
func extended(conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().ExecParams(context.Background(), sql, nil, nil, nil, nil).Close()
	return err
}

// opaque: reject refuses what may write anything from a session without a token; reads go on.
func TestOpaqueReject(t *testing.T) {
	_, db, p := start(t, "--opaque", "reject")
	without, with := p.Connect(t, db, user, ""), p.Connect(t, db, user, "33")
	for _, f := range forms {
		if f.opaque {
			want(t, without, f.sql, "ZF002")
			if got := code(extended(without, f.sql)); got != "ZF002" {
				t.Errorf("%s, extended: SQLSTATE %q, want ZF002", f.name, got)
			}
		}
	}
	for _, sql := range []string{"SELECT count(*) FROM acct", "SELECT now(), upper('x'), coalesce(1, 2)", "INSERT INTO log VALUES (length('x'))"} {
		want(t, without, sql, "")
	}
	want(t, with, "SELECT bump()", "")
}

// opaque_call: procedures that commit inside break behind a guard. `guard` keeps the fence and breaks them, `allow` runs
// them unfenced, `reject` refuses them.
func TestOpaqueCall(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	c.Exec(t, db, "CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN UPDATE acct SET bal = bal + 1 WHERE id = 1; COMMIT; END $$")
	for policy, want := range map[string]struct{ fresh, stale, none string }{
		"guard":  {"2D000", "ZF001", ""},
		"allow":  {"", "", ""},
		"reject": {"ZF004", "ZF004", "ZF004"},
	} {
		t.Run(policy, func(t *testing.T) {
			p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--opaque-call", policy, "--catalog", "off")
			old, none := p.Connect(t, db, user, text(nextToken())), p.Connect(t, db, user, "")
			check := func(what string, conn *pgx.Conn, sqlstate string) {
				if got := run(conn, "CALL commits()"); got != sqlstate {
					t.Errorf("%s: SQLSTATE %q, want %q", what, got, sqlstate)
				}
			}
			check("fresh", old, want.fresh)
			check("without a token", none, want.none)
			p.Connect(t, db, user, text(nextToken()))
			check("stale", old, want.stale)
		})
	}
}

// A replication connection takes ordinary SQL (replication=database) and is refused unless configured.
func TestReplicationConnectionsAreRefused(t *testing.T) {
	_, db, p := start(t)
	for _, value := range []string{"database", "true", "on", "1"} {
		client, err := conversation.Dial(p.Addr(), "user", "postgres", "database", db, "replication", value)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := client.UntilReady()
		client.Close()
		if err != nil || len(raw) == 0 || raw[len(raw)-1][0] != 'E' {
			t.Errorf("replication=%s: not refused (%v)", value, err)
		}
	}
}

// Behind a transaction pooler a plain SET would stay when the next client gets the session: refused; SET LOCAL works.
func TestPooledListenerRefusesPlainSet(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
	socket := filepath.Join(c.SocketDir(), ".s.PGSQL.6432")
	if err := os.WriteFile(file, []byte("fences:\n  - {name: acct, tables: [acct]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	proxytest.Start(t, c.DSN(db, "postgres"), "--config", file, "--listen-pooled", socket)
	conn, err := pgx.Connect(context.Background(), "host="+c.SocketDir()+" port=6432 sslmode=disable user="+user+" dbname="+db)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if got := run(conn, "SET fence.token = '33'"); got[:2] != "ZF" {
		t.Errorf("plain SET: SQLSTATE %q", got)
	}
	want(t, conn, "BEGIN; SET LOCAL fence.token = '33'; UPDATE acct SET bal = 33; COMMIT", "")
	want(t, conn, "UPDATE acct SET bal = 0", "ZF002")
}

// announce.roles: others may use a token that is the mark, and raise none.
func TestOnlySomeRolesMayAnnounce(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
	if err := os.WriteFile(file, []byte("announce:\n  roles: [postgres]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--config", file, "--fence", "acct=acct")
	p.Connect(t, db, "postgres", "33")
	want(t, p.Connect(t, db, user, "33"), "UPDATE acct SET bal = 33", "")
	if _, err := p.TryConnect(db, user, "34"); code(err) != "ZF003" {
		t.Errorf("a role that may not announce: %v, want ZF003", err)
	}
}

// A client may send its first query together with the startup packet, before it knows that it is let in: the query waits
// until the token is the mark, and runs behind the guard.
func TestQuerySentWithTheStartupPacketWaitsForTheAnnounce(t *testing.T) {
	c, db, p := start(t)
	old := p.Connect(t, db, user, "33")
	must(t, old, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 1")
	client, err := conversation.Dial(p.Addr(), "user", user, "database", db, "fence.token", "34")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	out, err := conversation.Encode(nil, "Query UPDATE acct SET bal = bal + 1 WHERE id = 1")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Write(out); err != nil {
		t.Fatal(err)
	}
	raiseWaits(t, c.Connect(t, db, "postgres"), 1)
	must(t, old, "COMMIT")
	for range 2 { // one for the startup, one for the query
		if raw, err := client.UntilReady(); err != nil || len(raw) == 0 || raw[len(raw)-1][0] != 'Z' {
			t.Fatalf("%v", err)
		}
	}
	if bal := number(t, c.Connect(t, db, "postgres"), "SELECT bal FROM acct WHERE id = 1"); bal != 34 {
		t.Errorf("bal = %d; want the old holder's 33 and one more", bal)
	}
}

// PREPARE TRANSACTION of a stale session has nothing to publish: its write was refused.
func TestStaleSessionPreparesNothing(t *testing.T) {
	c, db, p := start(t)
	old := p.Connect(t, db, user, "33")
	p.Connect(t, db, user, "34")
	if got := run(old, "BEGIN; UPDATE acct SET bal = 666; PREPARE TRANSACTION 'stale_"+db+"'"); got != "ZF001" {
		t.Errorf("SQLSTATE %q, want ZF001", got)
	}
	run(old, "ROLLBACK")
	if n := number(t, c.Connect(t, db, "postgres"), "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"); n != 0 {
		t.Errorf("%d prepared transactions", n)
	}
}

// The token changed by ways that the text hides is asked for before it is relied on.
func TestTokenChangedOutOfSight(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	c.Exec(t, db, `
		CREATE FUNCTION retoken(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN set_config('fence.token', $1, false); END $$;
		CREATE FUNCTION with_setting() RETURNS int LANGUAGE sql SET fence.token = '1' AS 'SELECT 1'`)
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
	for _, sql := range []string{
		"SELECT retoken('33')",
		"DO $$ BEGIN PERFORM set_config('fence.token', '33', false); END $$",
		"SELECT set_config('fence' || '.token', '33', false)",
		"SELECT set_config(name, '33', false) FROM (VALUES ('fence.token')) AS v(name)",
	} {
		for _, ext := range []bool{false, true} {
			current := nextToken()
			conn := p.Connect(t, db, user, text(current))
			must(t, conn, "UPDATE acct SET bal = 1")
			if ext {
				if err := extended(conn, sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
				if got := code(extended(conn, "UPDATE acct SET bal = 666")); got != "ZF001" {
					t.Errorf("%s, extended: SQLSTATE %q, want ZF001", sql, got)
				}
			} else {
				must(t, conn, sql)
				want(t, conn, "UPDATE acct SET bal = 666", "ZF001")
			}
			must(t, conn, "SELECT set_config('fence.' || 'token', '"+text(current)+"', false)")
			want(t, conn, "UPDATE acct SET bal = 2", "")
			must(t, conn, "SELECT with_setting()")
			want(t, conn, "UPDATE acct SET bal = 3", "")
		}
	}
}
