package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// newWays are DDL and what writes the fence by what it has made; %d tells one from another.
var newWays = []struct{ ddl, write string }{
	{"CREATE VIEW way_%d AS SELECT * FROM acct", "UPDATE way_%d SET bal = bal WHERE id = 1"},
	{"CREATE FUNCTION way_%d() RETURNS int LANGUAGE sql AS 'UPDATE acct SET bal = bal; SELECT 1'", "SELECT way_%d()"},
	{"CREATE TABLE way_%[1]d (id int, bal int); ALTER TABLE parts ATTACH PARTITION way_%[1]d FOR VALUES IN (%[1]d)", "INSERT INTO way_%[1]d VALUES (%[1]d, 1)"},
	{"CREATE TABLE way_%[1]d (LIKE acct INCLUDING ALL); ALTER TABLE way_%[1]d INHERIT acct", "INSERT INTO way_%[1]d VALUES (%[1]d, 1)"},
	{"CREATE TABLE way_%[1]d PARTITION OF parts FOR VALUES IN (%[1]d)", "INSERT INTO way_%[1]d VALUES (%[1]d, 1)"},
	{"CREATE TABLE way_%d () INHERITS (acct)", "DELETE FROM way_%d"},
	{"DO $$ BEGIN CREATE VIEW way_%d AS SELECT * FROM acct; END $$", "UPDATE way_%d SET bal = bal WHERE id = 1"},
}

// answeredBefore is what the log says when the catalog could not be read in time: nothing is promised then.
const answeredBefore = "DDL is answered before the catalog could be read"

// I1: who has the answer to DDL can rely on it that the new way to the fence is guarded: in all sessions, however the DDL was
// sent, and also in what was sent behind it before it was answered.
func TestI1DDLIsAnsweredWhenItsWaysAreGuarded(t *testing.T) {
	c, db, p := startCatalog(t, "--catalog-interval", "1h")
	stale := p.Connect(t, db, user, text(nextToken()))
	must(t, stale, "SELECT 1")
	holder := p.Connect(t, db, user, text(nextToken()))
	other := p.Connect(t, db, user, "")
	must(t, holder, "SELECT 1")
	must(t, other, "SELECT 1")
	must(t, c.Connect(t, db, "postgres"), "GRANT CREATE ON SCHEMA public TO teller; ALTER TABLE acct OWNER TO teller")
	n := 100
	for round := range 3 {
		for _, way := range newWays {
			for _, how := range []string{"simple", "extended", "block", "chain"} {
				n++
				ddl, write := fmt.Sprintf(way.ddl, n), fmt.Sprintf(way.write, n)
				steps := strings.SplitAfter(ddl, "; ")
				if strings.HasPrefix(ddl, "DO") || strings.HasPrefix(ddl, "CREATE FUNCTION") {
					steps = []string{ddl}
				}
				switch how {
				case "block":
					steps = append(append([]string{"BEGIN"}, steps...), "COMMIT")
				case "chain":
					steps = append(append([]string{"BEGIN"}, steps...), "COMMIT AND CHAIN")
				}
				for _, sql := range steps {
					protocol := how
					if how == "block" || how == "chain" {
						protocol = []string{"simple", "extended"}[round%2]
					}
					if got := either(holder, sql, protocol); got != "" {
						t.Fatalf("%s, %s: %q", sql, how, got)
					}
				}
				nobody, old := run(other, write), run(stale, write)
				if (nobody != "ZF002" || old != "ZF001") && !strings.Contains(p.Log(), answeredBefore) {
					t.Errorf("%s, %s: without a token %q, stale %q", ddl, how, nobody, old)
				}
				if how == "chain" {
					must(t, holder, "ROLLBACK")
				}
			}
		}
	}
}

// I1: the same for a session that does not wait for the answer.
func TestI1WhatIsSentBehindDDLWaitsForIt(t *testing.T) {
	c, db, p := startCatalog(t, "--catalog-interval", "1h")
	direct := c.Connect(t, db, "postgres")
	must(t, direct, "GRANT CREATE ON SCHEMA public TO teller")
	// Who has no token is refused; a holder's own guard shows in its lock.
	const guarded = "SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
	for i, tt := range []struct {
		token bool
		ddl   string
		then  []string
		want  string
	}{
		{false, "CREATE VIEW way_%d AS SELECT * FROM acct", []string{"DELETE FROM way_%d", "SELECT 1"}, "ZF002  "},
		{true, "CREATE TABLE way_%[1]d PARTITION OF parts FOR VALUES IN (%[1]d)", []string{"BEGIN", "DELETE FROM way_%d", guarded, "COMMIT"}, "    "},
	} {
		for k, protocol := range []string{"simple", "string", "extended", "block"} {
			for round := range 5 {
				n := 100 + 100*i + 10*k + round
				list, want := []string{fmt.Sprintf(tt.ddl, n)}, " "+tt.want
				switch protocol {
				case "string":
					list[0] += "; SELECT 1"
				case "block":
					list, want = []string{"BEGIN", list[0], "COMMIT"}, "   "+tt.want
				}
				then := strings.ReplaceAll(strings.Join(tt.then, "; "), "way_%d", fmt.Sprint("way_", n))
				if tt.token && protocol != "extended" { // the very next message
					list, want = append(list, then), strings.TrimSuffix(want, "   ")
				} else {
					list = append(list, strings.Split(then, "; ")...)
				}
				token := ""
				if tt.token {
					token = text(nextToken())
				}
				if got := atOnce(t, p.Connect(t, db, user, token), protocol == "extended", list); got != want && !strings.Contains(p.Log(), answeredBefore) {
					t.Errorf("%s, %s: %q, want %q", list, protocol, got, want)
				}
			}
		}
	}
}

// atOnce sends all before it reads an answer, and returns the SQLSTATEs, each with a space behind it.
func atOnce(t *testing.T, conn *pgx.Conn, extended bool, list []string) (codes string) {
	t.Helper()
	raw, err := conn.PgConn().Hijack()
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Conn.Close()
	for _, sql := range list {
		if !extended {
			raw.Frontend.SendQuery(&pgproto3.Query{String: sql})
			continue
		}
		raw.Frontend.SendParse(&pgproto3.Parse{Query: sql})
		raw.Frontend.SendBind(&pgproto3.Bind{})
		raw.Frontend.SendExecute(&pgproto3.Execute{})
		raw.Frontend.SendSync(&pgproto3.Sync{})
	}
	if err := raw.Frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	for ready := 0; ready < len(list); {
		m, err := raw.Frontend.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			codes += m.Code
		case *pgproto3.ReadyForQuery:
			codes += " "
			ready++
		}
	}
	return codes
}

// While the catalog cannot be read DDL is answered all the same.
func TestDDLIsAnsweredWithoutACatalog(t *testing.T) {
	c, db, p := startCatalog(t, "--catalog-interval", "1h")
	must(t, c.Connect(t, db, "postgres"), "GRANT CREATE ON SCHEMA public TO teller")
	holder := p.Connect(t, db, user, text(nextToken()))
	must(t, holder, "CREATE VIEW way_1 AS SELECT * FROM acct")
	locker := c.Connect(t, db, "postgres")
	must(t, locker, "BEGIN; LOCK TABLE pg_rewrite IN ACCESS EXCLUSIVE MODE") // which the look reads
	defer locker.Close(context.Background())
	must(t, holder, "CREATE FUNCTION way_2() RETURNS int LANGUAGE sql AS 'SELECT 1'")
	eventually(t, "said", func() bool { return strings.Contains(p.Log(), answeredBefore) })
	must(t, locker, "ROLLBACK")
	must(t, holder, "DROP VIEW way_1")
}

// I1: what only the session itself sees of its ways to the fence: of its own transaction, and temporary ones.
func TestI1WaysOfItsOwn(t *testing.T) {
	c, db, p := startCatalog(t, "--catalog-interval", "1h")
	must(t, c.Connect(t, db, "postgres"), "GRANT CREATE ON SCHEMA public TO teller; GRANT TEMP ON DATABASE "+db+" TO teller")
	const write = "UPDATE way SET bal = bal + 1 WHERE id = 1"
	for _, view := range []string{"CREATE VIEW way AS SELECT * FROM acct", "CREATE TEMP VIEW way AS SELECT * FROM acct", "CREATE VIEW pg_temp.way AS SELECT * FROM acct"} {
		for _, protocol := range []string{"simple", "extended", "string"} {
			steps := []string{"BEGIN", view, write}
			if protocol == "string" {
				steps = []string{"BEGIN; " + view + "; " + write}
			}
			first := func(conn *pgx.Conn, steps ...string) (sqlstate string) { // error
				for _, sql := range steps {
					got := ""
					if protocol == "string" {
						got = run(conn, sql)
					} else {
						got = either(conn, sql, protocol)
					}
					if sqlstate == "" {
						sqlstate = got
					}
				}
				return sqlstate
			}
			old := nextToken()
			stale := p.Connect(t, db, user, text(old))
			must(t, stale, "SELECT 1")
			fresh := p.Connect(t, db, user, text(nextToken()))
			must(t, fresh, "SELECT 1")
			if got := first(fresh, steps...); got != "" {
				t.Errorf("%s, %s, fresh: %q", view, protocol, got)
			}
			must(t, fresh, "ROLLBACK")
			if got := first(stale, steps...); got != "ZF001" {
				t.Errorf("%s, %s, stale: %q", view, protocol, got)
			}
			must(t, stale, "ROLLBACK")
			if strings.Contains(view, "temp") || strings.Contains(view, "TEMP") {
				must(t, stale, view)
				if got := first(stale, write); got != "ZF001" {
					t.Errorf("%s, %s, stale, later: %q", view, protocol, got)
				}
			}
		}
	}
}
