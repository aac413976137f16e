package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

var rowModes = []string{"reject", "rewrite"}

// I1. A text that must not run was prepared by a message: a cursor over its EXECUTE does not run it, nor does one EXECUTE of another.
func TestI1RefusedTextBehindOtherNames(t *testing.T) {
	for _, mode := range rowModes {
		c, db, p := rowProxy(t, "work", "on_stale: "+mode)
		direct := c.Connect(t, db, "postgres")
		token := nextToken()
		must(t, direct, fmt.Sprintf(rowReset, token+100))
		before := rowState(t, direct)
		zombie := p.Connect(t, db, user, text(token))
		for _, p := range [][2]string{
			{"r", "UPDATE work SET state = 'zombie', tok = 3 WHERE id = 1 RETURNING id"}, {"e", "EXECUTE r"}, {"f", "EXPLAIN ANALYZE EXECUTE r"},
			{"g", "PREPARE h AS UPDATE work SET state = 'zombie', tok = 3 WHERE id = 1"},
		} {
			if _, err := zombie.PgConn().Prepare(context.Background(), p[0], p[1], nil); err != nil {
				t.Fatalf("%s: %v", p[1], err)
			}
		}
		for _, sql := range []string{"EXECUTE r", "EXECUTE e", "EXECUTE f", "EXECUTE g", "EXPLAIN ANALYZE EXECUTE r", "CREATE TEMP TABLE x AS EXECUTE r"} {
			want(t, zombie, sql, "ZF004")
		}
		// A cursor that Bind has made over EXECUTE, fetched by SQL.
		front := zombie.PgConn().Frontend()
		for _, sql := range []string{"FETCH ALL FROM cur", "MOVE ALL FROM cur"} {
			must(t, zombie, "BEGIN")
			front.SendBind(&pgproto3.Bind{DestinationPortal: "cur", PreparedStatement: "e"})
			front.SendSync(&pgproto3.Sync{})
			if err := front.Flush(); err != nil {
				t.Fatal(err)
			}
			for ready := false; !ready; {
				m, err := front.Receive()
				if err != nil {
					t.Fatal(err)
				}
				_, ready = m.(*pgproto3.ReadyForQuery)
			}
			want(t, zombie, sql, "ZF004")
			must(t, zombie, "ROLLBACK")
		}
		if after := rowState(t, direct); after != before {
			t.Errorf("%s: %s became %s", mode, before, after)
		}
	}
}

// A statement prepared under one token stamps that of the session when it runs, and a stale one stays stale.
func TestPreparedAcrossTokens(t *testing.T) {
	for _, mode := range rowModes {
		c, db, p := rowProxy(t, "work", "on_stale: "+mode)
		direct := c.Connect(t, db, "postgres")
		first := nextToken()
		second := nextToken()
		must(t, direct, fmt.Sprintf(rowReset, 0))
		conn := p.Connect(t, db, user, text(first))
		if _, err := conn.Prepare(context.Background(), "u", "UPDATE work SET state = $2 WHERE id = $1"); err != nil {
			t.Fatal(err)
		}
		must(t, conn, "PREPARE s(int) AS UPDATE work SET state = 'sql' WHERE id = $1")
		for i, token := range []int64{first, second} {
			if i > 0 {
				must(t, conn, "SET fence.token = '"+text(token)+"'")
			}
			for range 7 { // past the sixth execution the plan is a generic one
				if tag, err := conn.Exec(context.Background(), "u", 1, "p"); err != nil || tag.String() != "UPDATE 1" {
					t.Fatalf("%s: %v %v", mode, tag, err)
				}
			}
			must(t, conn, "EXECUTE s(2)")
			if s := rowState(t, direct); s != fmt.Sprintf("1p%d 2sql%d", token, token) {
				t.Errorf("%s, token %d: %s", mode, token, s)
			}
		}
		must(t, direct, fmt.Sprintf("UPDATE work SET tok = %d", second+50))
		tag, err := conn.Exec(context.Background(), "u", 1, "zombie")
		if mode == "reject" && code(err) != "ZF001" || mode == "rewrite" && (err != nil || tag.String() != "UPDATE 0") {
			t.Errorf("%s, stale: %v %v", mode, tag, err)
		}
		if mode == "reject" {
			want(t, conn, "EXECUTE s(2)", "ZF001")
		}
		if s := rowState(t, direct); strings.Contains(s, "zombie") {
			t.Errorf("%s: %s", mode, s)
		}
	}
}

// A pipeline: each statement has its own check, and under reject a stale one ends its transaction.
func TestRowTokensInPipelines(t *testing.T) {
	for _, mode := range rowModes {
		c, db, p := rowProxy(t, "work", "on_stale: "+mode)
		direct := c.Connect(t, db, "postgres")
		token := nextToken()
		conn := p.Connect(t, db, user, text(token))
		for _, newer := range []int64{0, token + 100} {
			must(t, direct, fmt.Sprintf(rowReset, newer))
			batch := &pgx.Batch{}
			batch.Queue("UPDATE work SET state = $1 WHERE id = 2", "b")
			batch.Queue("SELECT count(*) FROM work")
			batch.Queue("UPDATE work SET state = $1 WHERE id = 1 RETURNING id", "b")
			batch.Queue("INSERT INTO work (id, state) VALUES ($1, $2), ($3, 'n')", 7, "n", 8)
			err := conn.SendBatch(context.Background(), batch).Close()
			wanted := fmt.Sprintf("1b%d 2b%d 7n%d 8n%d", token, token, token, token)
			sqlstate := ""
			if newer > 0 {
				wanted = fmt.Sprintf("1old%d 2b%d 7n%d 8n%d", newer, token, token, token)
				if mode == "reject" {
					wanted, sqlstate = fmt.Sprintf("1old%d 2old0", newer), "ZF001"
				}
			}
			if s := rowState(t, direct); s != wanted || code(err) != sqlstate {
				t.Errorf("%s, batch over %d: %v, %s, want %s", mode, newer, err, s, wanted)
			}
			// Two segments: the first fails, the second is another transaction.
			must(t, direct, fmt.Sprintf(rowReset, newer))
			pipe := conn.PgConn().StartPipeline(context.Background())
			pipe.SendQueryParams("UPDATE work SET state = 'p' WHERE id = 1", nil, nil, nil, nil)
			pipe.SendQueryParams("UPDATE work SET state = 'p' WHERE id = 2", nil, nil, nil, nil)
			pipe.SendPipelineSync()
			pipe.SendQueryParams("DELETE FROM work WHERE id = 2", nil, nil, nil, nil)
			pipe.SendPipelineSync()
			pipe.Flush()
			pipe.Close()
			wanted = fmt.Sprintf("1p%d", token)
			if newer > 0 {
				wanted = fmt.Sprintf("1old%d", newer)
			}
			if s := rowState(t, direct); s != wanted {
				t.Errorf("%s, pipeline over %d: %s, want %s", mode, newer, s, wanted)
			}
		}
	}
}

// COPY reads the table, and writes it with its stamp or not at all.
func TestRowTokensAndCopy(t *testing.T) {
	for _, mode := range rowModes {
		c, db, p := rowProxy(t, "work", "on_stale: "+mode)
		direct := c.Connect(t, db, "postgres")
		token := nextToken()
		must(t, direct, fmt.Sprintf(rowReset, 0))
		conn := p.Connect(t, db, user, text(token))
		out := func(sql string) string {
			var b bytes.Buffer
			_, err := conn.PgConn().CopyTo(context.Background(), &b, sql)
			return b.String() + code(err)
		}
		if got := out("COPY work TO STDOUT"); got != "1\told\t0\n2\told\t0\n" {
			t.Errorf("%s: %q", mode, got)
		}
		if got := out("COPY (UPDATE work SET state = 'c' WHERE id = 1 RETURNING id, state) TO STDOUT"); got != "1\tc\n" {
			t.Errorf("%s: %q", mode, got)
		}
		if s := rowState(t, direct); s != fmt.Sprintf("1c%d 2old0", token) {
			t.Errorf("%s: %s", mode, s)
		}
		before := rowState(t, direct)
		if _, err := conn.PgConn().CopyFrom(context.Background(), strings.NewReader("9\tx\n"), "COPY work (id, state) FROM STDIN"); code(err) != "ZF004" {
			t.Errorf("%s: %v", mode, err)
		}
		if _, err := conn.CopyFrom(context.Background(), pgx.Identifier{"work"}, []string{"id", "state"}, pgx.CopyFromRows([][]any{{9, "x"}})); code(err) != "ZF004" {
			t.Errorf("%s, pgx: %v", mode, err)
		}
		if after := rowState(t, direct); after != before {
			t.Errorf("%s: %s became %s", mode, before, after)
		}
		must(t, direct, fmt.Sprintf("UPDATE work SET tok = %d", token+100))
		wanted := map[string]string{"reject": "ZF001", "rewrite": ""}[mode]
		if got := out("COPY (UPDATE work SET state = 'zombie' WHERE id = 1 RETURNING id, state) TO STDOUT"); got != wanted {
			t.Errorf("%s, stale: %q", mode, got)
		}
	}
}

// Named tokens guard new rows, in MERGE too, and again after a savepoint took the guard away; two tokens for one row are ZF003.
func TestRowTokensOfNames(t *testing.T) {
	for _, mode := range rowModes {
		c, db, p := rowProxy(t, "jobs/*", "on_stale: "+mode)
		direct := c.Connect(t, db, "postgres")
		token := nextToken()
		must(t, direct, fmt.Sprintf(rowReset, 0))
		holder := p.Connect(t, db, user, fmt.Sprintf("jobs/1=%d", token))
		merge := "MERGE INTO work w USING src s ON w.id = s.id WHEN MATCHED THEN UPDATE SET state = 'm' WHEN NOT MATCHED THEN INSERT (id, state) VALUES (s.id, 'm')"
		if !inGrammarOf(c.Major, merge) {
			merge = "WITH u AS (UPDATE work SET state = 'm' WHERE id = 1) INSERT INTO work (id, state) VALUES (9, 'm')"
		}
		must(t, holder, merge)
		if s := rowState(t, direct); s != fmt.Sprintf("1m%d 2old0 9m%d", token, token) {
			t.Errorf("%s: %s", mode, s)
		}
		must(t, holder, "BEGIN; SAVEPOINT a; INSERT INTO work (id, state) VALUES (20, 'n'); ROLLBACK TO a")
		// The guard's lock went with the savepoint: the next holder is let in, and this one is refused.
		next := p.Connect(t, db, user, fmt.Sprintf("jobs/1=%d", token+1))
		must(t, next, "SELECT 1")
		want(t, holder, "INSERT INTO work (id, state) VALUES (21, 'zombie')", "ZF001")
		must(t, holder, "ROLLBACK")
		want(t, holder, "DELETE FROM work WHERE id = 9; "+merge, "ZF001")
		for _, sql := range []string{merge, "INSERT INTO work (id, state) SELECT 22, 'zombie'", "INSERT INTO work (id, state) VALUES (1, 'zombie') ON CONFLICT (id) DO UPDATE SET state = 'zombie'"} {
			for _, protocol := range []string{"simple", "extended", "block"} {
				if _, got := tag(holder, sql, protocol); got != "ZF001" {
					t.Errorf("%s, %s, %s: %q", mode, sql, protocol, got)
				}
			}
		}
		if s := rowState(t, direct); strings.Contains(s, "zombie") {
			t.Errorf("%s: %s", mode, s)
		}
		two := p.Connect(t, db, user, fmt.Sprintf("jobs/3=%d,jobs/4=%d", token+5, token+5))
		for _, sql := range []string{"UPDATE work SET state = 'x' WHERE id = 1", "INSERT INTO work (id, state) VALUES (30, 'x')"} {
			for _, protocol := range []string{"simple", "extended", "block"} {
				if _, got := tag(two, sql, protocol); got != "ZF003" {
					t.Errorf("%s, two tokens, %s, %s: %q", mode, sql, protocol, got)
				}
			}
		}
	}
}

// A column that was there before may be NULL, which counts as 0.
func TestRowTokensInANullableColumn(t *testing.T) {
	for _, mode := range rowModes {
		c, db, p := rowProxy(t, "work", "on_stale: "+mode)
		direct := c.Connect(t, db, "postgres")
		must(t, direct, "ALTER TABLE work ALTER tok DROP NOT NULL, ALTER tok DROP DEFAULT; INSERT INTO work (id, state) VALUES (1, 'old'), (2, 'old')")
		token := nextToken()
		conn := p.Connect(t, db, user, text(token))
		for _, sql := range []string{"UPDATE work SET state = 'n' WHERE id = 1", "DELETE FROM work WHERE id = 2"} {
			if got, sqlstate := tag(conn, sql, "extended"); !strings.HasSuffix(got, " 1") || sqlstate != "" {
				t.Errorf("%s, %s: %q %q", mode, sql, got, sqlstate)
			}
		}
		if s := rowState(t, direct); s != fmt.Sprintf("1n%d", token) {
			t.Errorf("%s: %s", mode, s)
		}
	}
}

// Positions and modes that change nothing: observe and off send the client's text, so a stale write passes and no row is stamped.
func TestRowTokensInOtherModes(t *testing.T) {
	for _, other := range []string{"observe", "off"} {
		c, db, p := rowProxy(t, "work", "on_stale: rewrite\nmode: "+other)
		direct := c.Connect(t, db, "postgres")
		must(t, direct, fmt.Sprintf(rowReset, 500))
		conn := p.Connect(t, db, user, text(nextToken()))
		for _, protocol := range []string{"simple", "extended", "block"} {
			if got, sqlstate := tag(conn, "UPDATE work SET state = 'o' WHERE id = 1", protocol); got != "UPDATE 1" || sqlstate != "" {
				t.Errorf("%s, %s: %q %q", other, protocol, got, sqlstate)
			}
			must(t, conn, "INSERT INTO work SELECT * FROM work WHERE false")
		}
		if s := rowState(t, direct); s != "1o500 2old0" {
			t.Errorf("%s: %s", other, s)
		}
	}
}
