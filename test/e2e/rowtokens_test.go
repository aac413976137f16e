package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

const rowSchema = `
CREATE TABLE work (id int PRIMARY KEY, state text, tok bigint NOT NULL DEFAULT 0);
CREATE TABLE src (id int PRIMARY KEY, state text);
INSERT INTO src VALUES (1, 'src'), (9, 'src');
ALTER TABLE work OWNER TO teller; ALTER TABLE src OWNER TO teller; ALTER TABLE log OWNER TO teller;`

// rowProxy is a proxy with one fence with row tokens on the table work; more are further lines of the fence.
func rowProxy(t testing.TB, name string, more ...string) (c *pgtest.Cluster, db string, p *proxytest.Proxy) {
	t.Helper()
	c = pgtest.Shared(t)
	db = fenced(t, c)
	c.Exec(t, db, rowSchema)
	file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
	text := "fences:\n  - name: " + name + "\n    tables: [work]\n    row_token: tok\n"
	for _, line := range more {
		text += "    " + line + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c, db, proxytest.Start(t, c.DSN(db, "postgres"), "--config", file)
}

// rowForms are statements that write the row with id 1, and perhaps others, with the tag of a fresh one and of one that
// finds a newer token in the row under on_stale: rewrite ("" for the same).
var rowForms = []struct{ sql, fresh, stale string }{
	{"UPDATE work SET state = 'x' WHERE id = 1", "UPDATE 1", "UPDATE 0"},
	{"UPDATE ONLY work AS w SET state = s.state FROM src s WHERE s.id = w.id AND w.id = 1", "UPDATE 1", "UPDATE 0"},
	{"UPDATE work SET state = 'x' WHERE id = 777", "UPDATE 0", "UPDATE 0"},
	{"DELETE FROM work WHERE id = 1", "DELETE 1", "DELETE 0"},
	{"DELETE FROM work USING src WHERE src.id = work.id", "DELETE 1", "DELETE 0"},
	{"INSERT INTO work (id, state) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET state = excluded.state", "INSERT 0 1", "INSERT 0 0"},
	{"INSERT INTO work (id, state) VALUES (1, 'x') ON CONFLICT DO NOTHING", "INSERT 0 0", "INSERT 0 0"},
	{"WITH u AS (UPDATE work SET state = 'x' WHERE id = 1 RETURNING id) SELECT count(*) FROM u", "SELECT 1", "SELECT 1"},
	{"MERGE INTO work w USING src s ON w.id = s.id AND s.id = 1 WHEN MATCHED THEN UPDATE SET state = 'm'", "MERGE 1", "MERGE 0"},
}

const rowReset = "DELETE FROM work; INSERT INTO work VALUES (1, 'old', %d), (2, 'old', 0)"

func rowState(t testing.TB, direct *pgx.Conn) string {
	t.Helper()
	var s string
	if err := direct.QueryRow(context.Background(), "SELECT COALESCE(string_agg(id || state || tok, ' ' ORDER BY id), '') FROM work").Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func tag(conn *pgx.Conn, sql string, protocol string) (string, string) {
	if protocol == "extended" {
		r := conn.PgConn().ExecParams(context.Background(), sql, nil, nil, nil, nil).Read()
		return r.CommandTag.String(), code(r.Err)
	}
	if protocol == "block" {
		sql = "BEGIN; " + sql + "; COMMIT"
	}
	rs, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	if err != nil {
		conn.PgConn().Exec(context.Background(), "ROLLBACK").ReadAll()
		return "", code(err)
	}
	if protocol == "block" {
		return rs[1].CommandTag.String(), ""
	}
	return rs[0].CommandTag.String(), ""
}

func testRowForms(t *testing.T, mode string) {
	c, db, p := rowProxy(t, "work", "on_stale: "+mode)
	direct := c.Connect(t, db, "postgres")
	token := nextToken()
	holder, nobody := p.Connect(t, db, user, text(token)), p.Connect(t, db, user, "")
	for _, f := range rowForms {
		if !inGrammarOf(c.Major, f.sql) {
			continue
		}
		for _, protocol := range []string{"simple", "extended", "block"} {
			name := f.sql + " " + protocol
			must(t, direct, fmt.Sprintf(rowReset, token-1))
			if got, sqlstate := tag(holder, f.sql, protocol); got != f.fresh || sqlstate != "" {
				t.Errorf("%s, fresh: %q %s, want %q", name, got, sqlstate, f.fresh)
			}
			if s := rowState(t, direct); strings.Contains(s, "1x") && !strings.Contains(s, "1x"+text(token)) {
				t.Errorf("%s: not stamped: %s", name, s)
			}
			must(t, direct, fmt.Sprintf(rowReset, token+100))
			before := rowState(t, direct)
			got, sqlstate := tag(holder, f.sql, protocol)
			wantTag, wantCode := f.stale, ""
			if mode == "reject" && f.fresh != f.stale || mode == "reject" && strings.HasPrefix(f.sql, "WITH") {
				wantTag, wantCode = "", "ZF001"
			}
			if got != wantTag || sqlstate != wantCode {
				t.Errorf("%s, stale: %q %s, want %q %s", name, got, sqlstate, wantTag, wantCode)
			}
			if after := rowState(t, direct); after != before {
				t.Errorf("%s, stale: %s became %s", name, before, after)
			}
			got, sqlstate = tag(nobody, f.sql, protocol)
			if after := rowState(t, direct); after != before || sqlstate != "ZF002" && (mode == "reject" || strings.HasPrefix(f.sql, "INSERT")) {
				t.Errorf("%s, without a token: %q %q; %s became %s", name, got, sqlstate, before, after)
			}
		}
	}
	for _, sql := range []string{"COPY work (id, state) FROM STDIN", "INSERT INTO work SELECT * FROM work"} {
		want(t, holder, sql, "ZF004")
		if got := code(extended(holder, sql)); got != "ZF004" {
			t.Errorf("%s, extended: %q", sql, got)
		}
	}
	cursor := "BEGIN; DECLARE c CURSOR FOR SELECT id FROM work WHERE id = 1 FOR UPDATE; FETCH c; UPDATE work SET state = 'c' WHERE CURRENT OF c; COMMIT"
	must(t, direct, fmt.Sprintf(rowReset, token+100))
	want(t, holder, cursor, map[string]string{"reject": "ZF001", "rewrite": "ZF004"}[mode])
	run(holder, "ROLLBACK")
	// Prepared by a message, executed by SQL: the same refusal.
	if _, err := holder.PgConn().Prepare(context.Background(), "refused", "INSERT INTO work SELECT * FROM work", nil); err != nil {
		t.Fatal(err)
	}
	want(t, holder, "EXECUTE refused", "ZF004")
	// Fencing by hand is sent as it is.
	must(t, direct, fmt.Sprintf(rowReset, token-1))
	must(t, holder, fmt.Sprintf("UPDATE work SET state = 'h', tok = %d WHERE id = 1 AND tok < %d", token, token))
	if s := rowState(t, direct); !strings.Contains(s, "1h"+text(token)) {
		t.Errorf("by hand: %s", s)
	}
	// Positions are those of the client's text.
	_, err := holder.PgConn().Exec(context.Background(), "UPDATE work SET state = 'x' WHERE nowhere = 1").ReadAll()
	if position(err) != len("UPDATE work SET state = 'x' WHERE ")+1 {
		t.Errorf("position %d of %v", position(err), err)
	}
	if err := extended(holder, "UPDATE work SET state = 'x' WHERE nowhere = 1"); position(err) != len("UPDATE work SET state = 'x' WHERE ")+1 {
		t.Errorf("extended: position %d of %v", position(err), err)
	}
}

func position(err error) int {
	if pg := pgError(err); pg != nil {
		return int(pg.Position)
	}
	return 0
}

func TestRowTokensReject(t *testing.T)  { testRowForms(t, "reject") }
func TestRowTokensRewrite(t *testing.T) { testRowForms(t, "rewrite") }

// A stale session that waits for the row's writer does not write it.
func TestRowTokensOfAWaiter(t *testing.T) {
	for _, mode := range []string{"reject", "rewrite"} {
		c, db, p := rowProxy(t, "work", "on_stale: "+mode)
		direct := c.Connect(t, db, "postgres")
		for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
			token := nextToken()
			must(t, direct, fmt.Sprintf(rowReset, 0))
			stale := p.Connect(t, db, user, text(token))
			must(t, stale, "BEGIN ISOLATION LEVEL "+level)
			must(t, stale, "SELECT count(*) FROM work")
			must(t, direct, fmt.Sprintf("BEGIN; UPDATE work SET tok = %d WHERE id = 1", token+1))
			type answer struct{ tag, code string }
			done := make(chan answer, 1)
			go func() {
				got, sqlstate := tag(stale, "UPDATE work SET state = 'late' WHERE id = 1", "simple")
				done <- answer{got, sqlstate}
			}()
			watch := c.Connect(t, db, "postgres")
			eventually(t, "the writer waits", func() bool {
				return number(t, watch, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%late%' AND datname = current_database()") > 0
			})
			must(t, direct, "COMMIT")
			got := <-done
			wanted := answer{"", "40001"}
			if level == "READ COMMITTED" {
				wanted = map[string]answer{"reject": {"", "ZF001"}, "rewrite": {"UPDATE 0", ""}}[mode]
			}
			if got != wanted {
				t.Errorf("%s, %s: %+v, want %+v", mode, level, got, wanted)
			}
			if s := rowState(t, watch); strings.Contains(s, "late") {
				t.Errorf("%s, %s: %s", mode, level, s)
			}
			stale.Close(context.Background())
		}
	}
}

// Named tokens, patterns and scopes: jobs/42=35 for the row 42 of jobs/*.
func TestRowTokensOfPatterns(t *testing.T) {
	for _, mode := range []string{"reject", "rewrite"} {
		c, db, p := rowProxy(t, "jobs/*", "on_stale: "+mode, "scope: jobs/{id}")
		direct := c.Connect(t, db, "postgres")
		must(t, direct, fmt.Sprintf(rowReset, 0))
		token := nextToken()
		one := p.Connect(t, db, user, fmt.Sprintf("jobs/1=%d", token))
		both := p.Connect(t, db, user, fmt.Sprintf("jobs/2=%d,jobs/3=%d", token, token))
		for _, protocol := range []string{"simple", "extended", "block"} {
			if got, sqlstate := tag(one, "UPDATE work SET state = 'x' WHERE id = 1", protocol); got != "UPDATE 1" || sqlstate != "" {
				t.Errorf("%s, own row, %s: %q %s", mode, protocol, got, sqlstate)
			}
			got, sqlstate := tag(one, "UPDATE work SET state = 'x' WHERE id = 2", protocol)
			if mode == "reject" && sqlstate != "ZF002" || mode == "rewrite" && got != "UPDATE 0" {
				t.Errorf("%s, another's row, %s: %q %s", mode, protocol, got, sqlstate)
			}
			if got, sqlstate := tag(both, "INSERT INTO work (id, state) VALUES (3, 'n') ON CONFLICT (id) DO UPDATE SET state = 'n'", protocol); got != "INSERT 0 1" || sqlstate != "" {
				t.Errorf("%s, new row, %s: %q %s", mode, protocol, got, sqlstate)
			}
			if _, sqlstate := tag(both, "INSERT INTO work (id, state) VALUES (5, 'n')", protocol); sqlstate != "ZF002" {
				t.Errorf("%s, another's new row, %s: %s", mode, protocol, sqlstate)
			}
		}
		want(t, one, "SET fence.token = 'work/1=5'", "ZF003")
		// What cannot be read may write any row. A mistake is PostgreSQL's to tell.
		newer := "UPDATE work SET state = 'newer' WHERE id = 2 RETURNING WITH (OLD AS o) o.id"
		long := "UPDATE work SET state = 'long' WHERE id = 2 AND id IN (2" + strings.Repeat(", abs(1)", 100<<10) + ")"
		for _, protocol := range []string{"simple", "extended", "block"} {
			wanted := "42601"
			if c.Major >= 18 {
				wanted = "ZF004"
			}
			if _, got := tag(one, newer, protocol); got != wanted {
				t.Errorf("%s, syntax of PostgreSQL 18, %s: %q, want %q", mode, protocol, got, wanted)
			}
			if _, got := tag(one, long, protocol); got != "ZF004" {
				t.Errorf("%s, a long statement, %s: %q", mode, protocol, got)
			}
			if _, got := tag(one, "UPDATE work SETT state = 'x'", protocol); got != "42601" {
				t.Errorf("%s, a mistake, %s: %q", mode, protocol, got)
			}
		}
		if s := rowState(t, direct); strings.Contains(s, "newer") || strings.Contains(s, "long") {
			t.Errorf("%s: %s", mode, s)
		}
		// A takeover of jobs/2: the older holder makes no new rows any more, and under reject writes none.
		next := p.Connect(t, db, user, fmt.Sprintf("jobs/3=%d", token+1))
		must(t, next, "SELECT 1")
		must(t, direct, "DELETE FROM work WHERE id = 3")
		for _, protocol := range []string{"simple", "extended", "block"} {
			if _, sqlstate := tag(both, "INSERT INTO work (id, state) VALUES (3, 'zombie')", protocol); sqlstate != "ZF001" {
				t.Errorf("%s, new row of a stale holder, %s: %q", mode, protocol, sqlstate)
			}
		}
		if s := rowState(t, direct); strings.Contains(s, "zombie") {
			t.Errorf("%s: %s", mode, s)
		}
	}
}

func pgError(err error) *pgconn.PgError {
	var pg *pgconn.PgError
	errors.As(err, &pg)
	return pg
}
