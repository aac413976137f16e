package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// waysSchema is the table work, fenced by a row token, and everything that writes it without being told to by name.
const waysSchema = rowSchema + `
CREATE TABLE up (id int PRIMARY KEY); CREATE TABLE part (id int, state text, tok bigint NOT NULL DEFAULT 0);
INSERT INTO up VALUES (1);
ALTER TABLE work ADD up int REFERENCES up ON DELETE CASCADE;
CREATE TABLE child () INHERITS (work);
CREATE VIEW seen AS SELECT id, state, tok FROM work;
CREATE TABLE ruled (id int); INSERT INTO ruled VALUES (1);
CREATE RULE r AS ON UPDATE TO ruled DO INSTEAD UPDATE work SET state = 'zombie' WHERE id = 1;
CREATE FUNCTION writes() RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE work SET state = 'zombie' WHERE id = 1; RETURN 1; END $$;
CREATE FUNCTION calm() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN writes(); END $$;
CREATE FUNCTION of(src) RETURNS int LANGUAGE sql AS 'SELECT writes()';
CREATE FUNCTION plus(int, text) RETURNS int LANGUAGE sql AS 'SELECT writes()';
CREATE OPERATOR + (LEFTARG = int, RIGHTARG = text, FUNCTION = plus);
CREATE FUNCTION lower(int) RETURNS text LANGUAGE sql AS $$ SELECT writes()::text $$;
CREATE TYPE kind AS ENUM ('a');
CREATE FUNCTION cast_kind(kind) RETURNS int LANGUAGE sql AS 'SELECT writes()';
CREATE CAST (kind AS int) WITH FUNCTION cast_kind(kind) AS IMPLICIT;
CREATE FUNCTION checks(int) RETURNS bool LANGUAGE sql AS 'SELECT writes() = 1';
CREATE DOMAIN checked AS int CHECK (checks(VALUE));
CREATE VIEW calling AS SELECT writes() AS w;
CREATE VIEW filtering AS SELECT 1 AS w WHERE writes() = 1;
CREATE TABLE fires (id int);
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM writes(); RETURN new; END $$;
CREATE TRIGGER t BEFORE INSERT ON fires FOR EACH ROW EXECUTE FUNCTION fired();
CREATE TABLE defaults (id int, w int DEFAULT writes());
CREATE TABLE secret (id int); INSERT INTO secret VALUES (1); ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON secret USING (writes() = 1);
CREATE PROCEDURE calls() LANGUAGE plpgsql AS $$ BEGIN UPDATE work SET state = 'zombie' WHERE id = 1; COMMIT; END $$;
GRANT ALL ON ALL TABLES IN SCHEMA public TO teller; ALTER VIEW seen OWNER TO teller; ALTER TABLE child OWNER TO teller;`

const waysReset = "DELETE FROM work; DELETE FROM up; INSERT INTO up VALUES (1); INSERT INTO work (id, state, tok, up) VALUES (1, 'old', %d, 1), (2, 'old', 0, NULL)"

// verdict is who keeps a stale session from changing a row that a newer token has written.
type verdict string

const (
	byProxy   verdict = "proxy"   // refused, or passes over the row
	byTrigger verdict = "trigger" // of init --triggers
	open      verdict = "open"    // nobody: the documentation says so
)

// waysAround are those that SQL text does not show, and corners of the grammar. Each line has its verdict for a
// session whose token is stale, and for one without any: by the proxy that only reads texts, and with triggers beside it;
// byCatalog are those that change when it reads the catalog too. The table is
// the same under reject and rewrite, but for lines that say otherwise.
var waysAround = []struct {
	name, sql    string
	stale, none  verdict // proxy only
	withTriggers verdict // both
}{
	{"UPDATE", "UPDATE work SET state = 'zombie' WHERE id = 1", byProxy, byProxy, byProxy},
	{"volatile function", "SELECT writes()", byProxy, open, byTrigger},
	{"immutable function that calls a writer", "SELECT calm()", byProxy, open, byTrigger},
	{"EXPLAIN of an immutable function", "EXPLAIN SELECT calm()", byProxy, open, byTrigger},
	{"functional notation", "SELECT (s).of FROM src s LIMIT 1", open, open, byTrigger},
	{"functional notation without parentheses", "SELECT s.of FROM src s LIMIT 1", open, open, byTrigger},
	{"operator", "SELECT 1 + 'x'::text", open, open, byTrigger},
	{"implicit cast", "SELECT abs('a'::kind)", byProxy, open, byTrigger},
	{"domain", "SELECT 1::checked", byProxy, open, byTrigger},
	{"view that calls", "SELECT * FROM calling", open, open, byTrigger},
	{"view that filters", "SELECT * FROM filtering", open, open, byTrigger},
	{"row security", "SELECT * FROM secret", open, open, byTrigger},
	{"overload", "SELECT lower(1)", open, open, byTrigger},
	{"query_to_xml", "SELECT query_to_xml('SELECT writes()', true, true, '')", byProxy, open, byTrigger},
	{"ts_stat", "SELECT ts_stat('SELECT to_tsvector(writes()::text)')", byProxy, open, byTrigger},
	{"DO", "DO $$ BEGIN UPDATE work SET state = 'zombie' WHERE id = 1; END $$", byProxy, open, byTrigger},
	{"CALL with COMMIT", "CALL calls()", byProxy, open, byTrigger},
	{"updatable view", "UPDATE seen SET state = 'zombie' WHERE id = 1", open, open, byTrigger},
	{"rule", "UPDATE ruled SET id = 2", open, open, byTrigger},
	{"cascade", "DELETE FROM up WHERE id = 1", open, open, byTrigger},
	{"trigger of another table", "INSERT INTO fires VALUES (1)", open, open, byTrigger},
	{"default", "INSERT INTO defaults (id) VALUES (1)", open, open, byTrigger},
	{"inheritance child by the parent", "UPDATE work SET state = 'zombie'", byProxy, byProxy, byProxy},
	{"standard_conforming_strings in front", `SET standard_conforming_strings = off ~ SELECT 'a\', 'b; UPDATE work SET state = $$zombie$$ WHERE id = 1; --'`, byProxy, byProxy, byProxy},
	{"EXECUTE", "PREPARE zzz AS UPDATE work SET state = 'zombie' WHERE id = 1; EXECUTE zzz; DEALLOCATE zzz", byProxy, byProxy, byProxy},
	{"CREATE TABLE AS", "CREATE TEMP TABLE zt AS WITH u AS (UPDATE work SET state = 'zombie' WHERE id = 1 RETURNING id) SELECT * FROM u", byProxy, byProxy, byProxy},
	{"COPY (UPDATE) TO", "COPY (UPDATE work SET state = 'zombie' WHERE id = 1 RETURNING id) TO STDOUT", byProxy, byProxy, byProxy},
	{"EXPLAIN ANALYZE", "EXPLAIN ANALYZE UPDATE work SET state = 'zombie' WHERE id = 1", byProxy, byProxy, byProxy},
	{"by its schema", "UPDATE public.work SET state = 'zombie' WHERE id = 1", byProxy, byProxy, byProxy},
	{"Unicode name", `UPDATE U&"w\006frk" SET state = 'zombie' WHERE id = 1`, byProxy, byProxy, byProxy},
	{"a text that only some grammars read", "UPDATE work SET state = 'zom' -- x\n 'bie' WHERE id = 1", byProxy, byProxy, byProxy},
}

// closedToAll are the ways that the proxy opens to nobody with a token: docs/differences.md.
var closedToAll = map[string]string{"CALL with COMMIT": "2D000", "standard_conforming_strings in front": "ZF004"}

// TestWaysAround holds the verdict of each way.
func TestWaysAround(t *testing.T) {
	for _, mode := range []string{"reject", "rewrite"} {
		t.Run(mode+", by texts alone", func(t *testing.T) { testWays(t, mode, false, false) })
		t.Run(mode+", with triggers", func(t *testing.T) { testWays(t, mode, true, false) })
		t.Run(mode+", with the catalog", func(t *testing.T) { testWays(t, mode, false, true) })
	}
}

// byCatalog are the ways that are open to texts alone and that the proxy closes when it knows the catalog, for sessions with
// a stale token and without one.
var byCatalog = map[string]bool{"volatile function": true, "immutable function that calls a writer": true, "overload": true, "CALL with COMMIT": true, "updatable view": true}

func testWays(t *testing.T, mode string, triggers, catalog bool) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	c.Exec(t, db, waysSchema)
	file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
	text := "fences:\n  - name: work\n    tables: [work]\n    row_token: tok\n    on_stale: " + mode + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if triggers {
		out, err := exec.Command(proxytest.Binary(t), "init", "--dsn", c.DSN(db, "postgres"), "--triggers", "--config", file).CombinedOutput()
		if err != nil {
			t.Fatalf("init --triggers: %v\n%s", err, out)
		}
	}
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--config", file, "--catalog", map[bool]string{true: "on", false: "off"}[catalog])
	direct := c.Connect(t, db, "postgres")
	must(t, direct, "SET session_replication_role = replica") // its own writes fire no trigger
	token := nextToken()
	zombie := p.Connect(t, db, user, fmt.Sprint(token))
	nobody := p.Connect(t, db, user, "")
	must(t, zombie, "SELECT 1")
	successor := p.Connect(t, db, user, fmt.Sprint(token+10))
	must(t, successor, "SELECT 1")
	for _, w := range waysAround {
		for who, conn := range map[string]*pgx.Conn{"stale": zombie, "tokenless": nobody} {
			verdict := w.stale
			if who == "tokenless" {
				verdict = w.none
			}
			if triggers && verdict == open {
				verdict = w.withTriggers
			}
			if catalog && byCatalog[w.name] {
				verdict = byProxy
			}
			must(t, direct, fmt.Sprintf(waysReset, token+10))
			before := rowState(t, direct)
			sqlstate := inParts(conn, w.sql)
			run(conn, "ROLLBACK")
			run(conn, "RESET standard_conforming_strings")
			after := rowState(t, direct)
			held := after == before || !strings.Contains(after, "1zombie") && strings.Contains(after, "1old")
			if held != (verdict != open) || held && sqlstate != "" && !strings.HasPrefix(sqlstate, "ZF") {
				t.Errorf("%s, %s: %q, want by %s; %s became %s", w.name, who, sqlstate, verdict, before, after)
			}
		}
		// The way leads there: who holds the lock goes it, or the proxy lets nobody.
		must(t, direct, fmt.Sprintf(waysReset, token+10))
		sqlstate := inParts(successor, w.sql)
		run(successor, "ROLLBACK")
		run(successor, "RESET standard_conforming_strings")
		run(successor, "DROP TABLE IF EXISTS zt")
		if catalog && w.name == "updatable view" {
			if sqlstate != "ZF004" { // a row token cannot be written through it
				t.Errorf("%s: %q with the mark's token", w.name, sqlstate)
			}
			continue
		}
		if after := rowState(t, direct); strings.Contains(after, "1old") && (sqlstate == "" || sqlstate != closedToAll[w.name]) {
			t.Errorf("%s: with the mark's token it does not write: %q, %s", w.name, sqlstate, after)
		}
	}
}

// inParts sends what stands between " ~ " in strings of their own and returns the last error.
func inParts(conn *pgx.Conn, sql string) (sqlstate string) {
	for _, part := range strings.Split(sql, " ~ ") {
		if got := run(conn, part); got != "" {
			sqlstate = got
		}
	}
	return sqlstate
}
