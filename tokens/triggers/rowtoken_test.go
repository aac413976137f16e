package triggers

import (
	"strings"
	"testing"
)

const withColumn = `CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL DEFAULT 0, "Tok" bigint NOT NULL DEFAULT 0);
	INSERT INTO t VALUES (1, 0, 33), (2, 0, 34), (3, 0, 40), (4, 0, 0)`

const tokensOf = `SELECT string_agg(id || ':' || v || ':' || "Tok", ' ' ORDER BY id) FROM t`

// Row tokens, kept by the database alone: what is written is stamped, and what a newer token has written is refused.
func TestRowTokensReject(t *testing.T) {
	w := shared(t, withColumn)
	c := config("t")
	c.Fences[0].RowToken = "Tok"
	w.install(c)
	if p := w.compare(c); len(p.Steps) > 0 || states(p) != "" || len(p.Tables) != 2 {
		t.Errorf("%+v", p)
	}
	a := w.dial("app").token("34")
	for _, tt := range []struct{ sql, want, rows string }{
		{"UPDATE t SET v = 1 WHERE id IN (1, 2, 4)", "ok", "ok:1:1:34 2:1:34 3:0:40 4:1:34"},
		{"UPDATE t SET v = 1 WHERE id = 3", "ZF001", "ok:1:0:33 2:0:34 3:0:40 4:0:0"},
		{"UPDATE t SET v = 1", "ZF001", "ok:1:0:33 2:0:34 3:0:40 4:0:0"},
		{"DELETE FROM t WHERE id = 3", "ZF001", "ok:1:0:33 2:0:34 3:0:40 4:0:0"},
		{"DELETE FROM t WHERE id <> 3", "ok", "ok:3:0:40"},
		{"INSERT INTO t (id) VALUES (5)", "ok", "ok:1:0:33 2:0:34 3:0:40 4:0:0 5:0:34"},
		{"INSERT INTO t VALUES (3) ON CONFLICT (id) DO UPDATE SET v = 9", "ZF001", "ok:1:0:33 2:0:34 3:0:40 4:0:0"},
		{"INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 9", "ok", "ok:1:9:34 2:0:34 3:0:40 4:0:0"},
		{`UPDATE t SET v = 1, "Tok" = 34 WHERE id = 1 AND "Tok" < 34`, "ok", "ok:1:1:34 2:0:34 3:0:40 4:0:0"},
		{`UPDATE t SET "Tok" = 0 WHERE id = 1`, "ZF001", "ok:1:0:33 2:0:34 3:0:40 4:0:0"},
	} {
		a.must("BEGIN; SAVEPOINT s")
		expect(t, tt.sql, a.do(tt.sql), tt.want)
		if tt.want != "ok" {
			a.must("ROLLBACK TO s")
		}
		expect(t, tt.sql+": rows", a.do(tokensOf), tt.rows)
		a.must("ROLLBACK")
	}
	expect(t, "stale", w.dial("app").token("33").do("INSERT INTO t VALUES (9)"), "ZF001")
	w.su.must("SELECT fence.allow_bypass('deploy', 'x')")
	expect(t, "bypass", w.dial("deploy", "fence.bypass", "x").do("UPDATE t SET v = 7 WHERE id = 3"), "ok")
	expect(t, "bypass: rows", a.do(tokensOf), "ok:1:0:33 2:0:34 3:7:40 4:0:0")
}

// With the event triggers, children that come later have row tokens as their parents do; under rewrite no guard of all writes is there.
func TestEventTriggersGiveChildrenRowTokens(t *testing.T) {
	for _, rewrite := range []bool{false, true} {
		for _, always := range []bool{false, true} {
			w := shared(t, withColumn+"; CREATE TABLE part (id int, \"Tok\" bigint NOT NULL DEFAULT 0) PARTITION BY RANGE (id)")
			c := config("t", "part")
			c.Fences[0].RowToken, c.Fences[0].Rewrite, c.Always, c.Watch = "Tok", rewrite, always, true
			w.install(c)
			a := w.dial("app").token("34")
			a.must("CREATE TABLE kid () INHERITS (t); CREATE TABLE grandkid () INHERITS (kid)")
			a.must("CREATE TABLE adopted (LIKE t INCLUDING DEFAULTS); ALTER TABLE adopted INHERIT t; CREATE TABLE \"Part 1\" PARTITION OF part FOR VALUES FROM (0) TO (10)")
			if p := w.compare(c); len(p.Steps) > 0 || states(p) != "" {
				t.Errorf("rewrite %v, always %v: %s\n%+v", rewrite, always, states(p), p.Steps)
			}
			for _, table := range []string{"kid", "grandkid", "adopted", `"Part 1"`} {
				expect(t, table, a.do("INSERT INTO "+table+" (id) VALUES (1)"), "ok")
				expect(t, table, a.do(`SELECT "Tok" FROM `+table), "ok:34")
				a.token("")
				expect(t, table+" without a token", a.do("INSERT INTO "+table+" (id) VALUES (1)"), "ZF002")
				expect(t, "TRUNCATE "+table+" without a token", a.do("TRUNCATE "+table), "ZF002")
				a.token("34")
			}
		}
	}
}

// on_stale: rewrite: newer rows are left alone, as hand-written fencing SQL does, and the mark is not asked.
func TestRowTokensRewrite(t *testing.T) {
	w := shared(t, withColumn+"; CREATE TABLE part (id int, \"Tok\" bigint NOT NULL DEFAULT 0) PARTITION BY RANGE (id); CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10)")
	c := config("t", "part")
	c.Fences[0].RowToken, c.Fences[0].Rewrite = "Tok", true
	w.install(c)
	if p := w.compare(c); len(p.Steps) > 0 || states(p) != "" || len(p.Tables) != 6 {
		t.Errorf("%+v", p)
	}
	a := w.dial("app").token("34")
	a.must("UPDATE t SET v = 1")
	expect(t, "rows", a.do(tokensOf), "ok:1:1:34 2:1:34 3:0:40 4:1:34")
	a.token("33").must("UPDATE t SET v = 2; DELETE FROM t")
	expect(t, "a stale session wrote nothing", a.do(tokensOf), "ok:1:1:34 2:1:34 3:0:40 4:1:34")
	a.token("").must("BEGIN")
	expect(t, "without a token", a.do("UPDATE t SET v = 2"), "ZF002")
	a.must("ROLLBACK")
	a.token("34").must("INSERT INTO part VALUES (1); INSERT INTO part_1 VALUES (2)")
	expect(t, "partitions", a.do(`SELECT id, "Tok" FROM part ORDER BY id`), "ok:1|34|2|34")
	// TRUNCATE has no rows to look at: it would take newer ones with it.
	for _, table := range []string{"t", "part", "part_1"} {
		for token, code := range map[string]string{"": "ZF002", "33": "ZF001", "35": "ZF006"} {
			expect(t, "TRUNCATE "+table+" with "+token, a.token(token).do("TRUNCATE "+table), code)
		}
	}
	a.token("34").must("TRUNCATE t, part")
	w.su.must("SELECT fence.allow_bypass('deploy', 'x')")
	expect(t, "bypass", w.dial("deploy", "fence.bypass", "x").do("TRUNCATE t"), "ok")
	for _, step := range w.compare(config("t")).Notes {
		if !strings.Contains(step, "fence_row_token") && !strings.Contains(step, "fence_guard_truncate") {
			t.Errorf("note %q", step)
		}
	}
	if p, err := Remove(ctx, w.su.Conn, 0); err != nil || len(p.Steps) != 5 { // PostgreSQL has cloned one to the partition
		t.Errorf("%+v %v", p, err)
	}
}

// I1, and foreign keys stay true: what a cascade would write and may not is an error under rewrite too, for a row that is left
// alone would refer to nothing.
func TestI1CascadesMeetNewerRows(t *testing.T) {
	const tables = `CREATE TABLE above (id int PRIMARY KEY); INSERT INTO above VALUES (1), (2);
		CREATE TABLE t (id int PRIMARY KEY, up int REFERENCES above ON DELETE CASCADE ON UPDATE CASCADE, tok bigint NOT NULL DEFAULT 0);
		INSERT INTO t VALUES (1, 1, 40), (2, 2, 0);
		CREATE TABLE other (id int); CREATE FUNCTION writes() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE t SET id = id WHERE id = NEW.id; RETURN NEW; END';
		CREATE TRIGGER writes AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION writes()`
	for _, scope := range []string{"", "id"} {
		for _, rewrite := range []bool{false, true} {
			w := shared(t, tables)
			c := config("t")
			fence := &c.Fences[0]
			fence.RowToken, fence.Rewrite = "tok", rewrite
			token := "34"
			if scope != "" {
				fence.Name, fence.Scope, fence.ScopeColumn, c.Bare = "f/*", "f/{}", scope, ""
				w.su.must("SELECT fence.raise('f/1', 0, 34, 'seed', NULL); SELECT fence.raise('f/2', 0, 34, 'seed', NULL)")
				token = "f/1=34,f/2=34"
			}
			w.install(c)
			a := w.dial("app").token(token)
			for _, sql := range []string{"DELETE FROM above WHERE id = 1", "UPDATE above SET id = 11 WHERE id = 1", "INSERT INTO other VALUES (1)"} {
				expect(t, sql, a.do(sql), "ZF001")
			}
			for _, sql := range []string{"UPDATE above SET id = 12 WHERE id = 2", "INSERT INTO other VALUES (2)", "DELETE FROM above WHERE id = 12"} {
				expect(t, sql, a.do(sql), "ok")
			}
			expect(t, "rows", a.do("SELECT string_agg(id || ':' || up || ':' || tok, ' ') FROM t"), "ok:1:1:40")
			if rewrite {
				a.must("DELETE FROM t")
			}
			a.must("ALTER TABLE t ADD FOREIGN KEY (up) REFERENCES above")
			expect(t, "left alone", a.do("SELECT count(*) FROM t"), "ok:1")
		}
	}
}

// A trigger of an earlier version is replaced by init --triggers.
func TestTriggersOfRowTokensAreOfThisVersion(t *testing.T) {
	w := shared(t, withColumn)
	c := config("t")
	c.Fences[0].RowToken = "Tok"
	w.install(c)
	w.su.must(`CREATE FUNCTION fence.row_token_0123456789abcdef() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE OR REPLACE TRIGGER fence_row_token BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION fence.row_token_0123456789abcdef('f', 'f', 'reject')`)
	if s := states(w.compare(c)); s != "t fence_row_token altered" {
		t.Error(s)
	}
	w.install(c)
	expect(t, "stale row", w.dial("app").token("34").do("UPDATE t SET v = 1 WHERE id = 3"), "ZF001")
}
