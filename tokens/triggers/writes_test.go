package triggers

import (
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// The tables of TestEveryWayToAFencedTable: fenced are t, kid, part (partitioned), parent (inheritance) and what is below them.
const waysTables = `
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL DEFAULT 0);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i;
CREATE TABLE up (id int PRIMARY KEY, k int UNIQUE);
INSERT INTO up SELECT i, i FROM generate_series(1, 10) i;
CREATE TABLE kid (id int, cascaded int REFERENCES up ON DELETE CASCADE ON UPDATE CASCADE, nulled int REFERENCES up (k) ON DELETE SET NULL ON UPDATE SET NULL, defaulted int DEFAULT 10 REFERENCES up ON DELETE SET DEFAULT);
INSERT INTO kid VALUES (1, 1, NULL, NULL), (2, NULL, 2, NULL), (3, NULL, NULL, 3);
CREATE TABLE part (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
CREATE TABLE part_1a PARTITION OF part_1 FOR VALUES FROM (0) TO (5);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20);
INSERT INTO part SELECT i, 0 FROM generate_series(0, 4) i; INSERT INTO part VALUES (12, 0);
CREATE TABLE parent (id int, v int); CREATE TABLE child (extra int) INHERITS (parent); CREATE TABLE grandchild () INHERITS (child);
INSERT INTO grandchild VALUES (1, 1, 1);
CREATE VIEW seen AS SELECT id, v FROM t WHERE id < 5 WITH CHECK OPTION;
CREATE VIEW seen_again AS SELECT * FROM seen;
CREATE VIEW odd AS SELECT id FROM up;
CREATE FUNCTION odd_write() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE t SET v = v + 1 WHERE id = 1; RETURN NEW; END';
CREATE TRIGGER odd_write INSTEAD OF INSERT ON odd FOR EACH ROW EXECUTE FUNCTION odd_write();
CREATE TABLE ruled (id int); CREATE RULE r AS ON INSERT TO ruled DO ALSO UPDATE t SET v = v + 1 WHERE t.id = NEW.id;
CREATE TABLE triggered (id int); CREATE TRIGGER g AFTER INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION odd_write();
CREATE TABLE deferred (id int); CREATE CONSTRAINT TRIGGER d AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION odd_write();
CREATE TABLE source (id int, v int); INSERT INTO source VALUES (1, 7), (11, 8);
CREATE FUNCTION touch(i int) RETURNS int LANGUAGE sql AS 'UPDATE t SET v = v + 1 WHERE id = i RETURNING v';
CREATE FUNCTION touch_atomic(i int) RETURNS int LANGUAGE sql BEGIN ATOMIC UPDATE t SET v = v + 1 WHERE id = i RETURNING v; END;
CREATE FUNCTION touch_dynamic(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE ''UPDATE t SET v = v + 1 WHERE id = '' || i; RETURN 1; END';
CREATE FUNCTION touch_definer(i int) RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = public AS 'UPDATE t SET v = v + 1 WHERE id = i RETURNING v';
CREATE FUNCTION touch_pure(i int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT touch(i)';
CREATE FUNCTION touch_swallow(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE t SET v = v + 1 WHERE id = i; RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN 0; END';
CREATE FUNCTION touch_row(up) RETURNS int LANGUAGE sql AS 'UPDATE t SET v = v + 1 WHERE id = $1.id RETURNING v';
CREATE OPERATOR ### (FUNCTION = touch, RIGHTARG = int);
CREATE TYPE ty AS (a int); CREATE FUNCTION to_ty(int) RETURNS ty LANGUAGE sql AS 'SELECT ROW(touch($1))::ty'; CREATE CAST (int AS ty) WITH FUNCTION to_ty(int) AS IMPLICIT;
CREATE FUNCTION length(int) RETURNS int LANGUAGE sql AS 'SELECT touch($1)';
CREATE TABLE lazy (id int, v int DEFAULT touch(1));
CREATE TABLE checked (id int CHECK (touch(id) > 0));
CREATE DOMAIN dom AS int CHECK (touch(VALUE) > 0);
CREATE TABLE generated (id int, g int GENERATED ALWAYS AS (touch_pure(id)) STORED);
CREATE TABLE indexed (id int); CREATE INDEX ON indexed (touch_pure(id));
CREATE VIEW calling AS SELECT touch(id) FROM up WHERE id = 1;
CREATE TABLE policed (id int); INSERT INTO policed VALUES (1); ALTER TABLE policed ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON policed USING (touch(id) > 0);
CREATE PROCEDURE commits() LANGUAGE plpgsql AS 'BEGIN COMMIT; UPDATE t SET v = v + 1 WHERE id = 1; COMMIT; UPDATE t SET v = v + 1 WHERE id = 2; COMMIT; END';
CREATE PROCEDURE loops() LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..3 LOOP UPDATE t SET v = v + 1 WHERE id = i; COMMIT; END LOOP; END';
`

var waysConfig = config("t", "kid", "part", "parent")

type way struct{ name, sql, stale string }

// Every write to a fenced table: through what way, and with what code it is refused to a session with a stale token. "ok:0" and so
// on is what a function says that has swallowed the refusal: then nothing was written.
var ways = []way{
	{"INSERT", "INSERT INTO t VALUES (100)", ""},
	{"INSERT SELECT", "INSERT INTO t SELECT id + 100 FROM source", ""},
	{"INSERT of no row", "INSERT INTO t SELECT id FROM source WHERE false", ""},
	{"ON CONFLICT DO UPDATE", "INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = 9", ""},
	{"ON CONFLICT DO NOTHING", "INSERT INTO t VALUES (1, 1) ON CONFLICT DO NOTHING", ""},
	{"UPDATE", "UPDATE t SET v = 1 WHERE id = 1", ""},
	{"UPDATE of no row", "UPDATE t SET v = 1 WHERE false", ""},
	{"DELETE", "DELETE FROM t WHERE id = 1", ""},
	{"TRUNCATE", "TRUNCATE t", ""},
	{"MERGE", "MERGE INTO t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id)", ""},
	{"MERGE that does nothing", "MERGE INTO t USING source s ON t.id = s.id AND false WHEN MATCHED THEN DELETE", ""},
	{"data-modifying CTE", "WITH d AS (DELETE FROM t WHERE id = 1 RETURNING *) SELECT * FROM d", ""},
	{"CTE that is not read", "WITH d AS (DELETE FROM t WHERE id = 1) SELECT 1", ""},
	{"WHERE CURRENT OF", "BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH c; UPDATE t SET v = 1 WHERE CURRENT OF c; COMMIT", ""},
	{"PREPARE", "PREPARE p AS UPDATE t SET v = 1 WHERE id = 1; EXECUTE p; DEALLOCATE p", ""},
	{"EXPLAIN ANALYZE", "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) UPDATE t SET v = 1 WHERE id = 1", ""},
	{"FK ON DELETE CASCADE", "DELETE FROM up WHERE id = 1", ""},
	{"FK ON UPDATE CASCADE", "UPDATE up SET id = 101 WHERE id = 1", ""},
	{"FK ON DELETE SET NULL", "DELETE FROM up WHERE id = 2", ""},
	{"FK ON UPDATE SET NULL", "UPDATE up SET k = 102 WHERE id = 2", ""},
	{"FK ON DELETE SET DEFAULT", "DELETE FROM up WHERE id = 3", ""},
	{"TRUNCATE CASCADE", "TRUNCATE up CASCADE", ""},
	{"updatable view", "UPDATE seen SET v = 3 WHERE id = 1", ""},
	{"view over a view", "DELETE FROM seen_again WHERE id = 1", ""},
	{"INSERT into a view", "INSERT INTO seen VALUES (0, 0)", ""},
	{"INSTEAD OF trigger", "INSERT INTO odd VALUES (1)", ""},
	{"rule", "INSERT INTO ruled VALUES (1)", ""},
	{"trigger of another table", "INSERT INTO triggered VALUES (1)", ""},
	{"deferred trigger, at COMMIT", "BEGIN; INSERT INTO deferred VALUES (1); COMMIT", ""},
	{"function", "SELECT touch(1)", ""},
	{"BEGIN ATOMIC", "SELECT touch_atomic(1)", ""},
	{"dynamic SQL", "SELECT touch_dynamic(1)", ""},
	{"SECURITY DEFINER", "SELECT touch_definer(1)", ""},
	{"an IMMUTABLE one, by the planner", "EXPLAIN SELECT touch_pure(1)", ""},
	{"a refusal that is swallowed", "SELECT touch_swallow(1)", "ok:0"},
	{"operator", "SELECT ### 1", ""},
	{"cast", "SELECT 1::ty", ""},
	{"a built-in's name", "SELECT length(1)", ""},
	{"attribute notation", "SELECT up.touch_row FROM up WHERE id = 1", ""},
	{"default", "INSERT INTO lazy (id) VALUES (1)", ""},
	{"check", "INSERT INTO checked VALUES (1)", ""},
	{"domain", "SELECT 1::dom", ""},
	{"generated column", "INSERT INTO generated (id) VALUES (1)", ""},
	{"index", "INSERT INTO indexed VALUES (1)", ""},
	{"SELECT from a view that calls", "SELECT * FROM calling", ""},
	{"row security", "SELECT * FROM policed", ""},
	{"DO", "DO $$ BEGIN UPDATE t SET v = 1 WHERE id = 1; END $$", ""},
	{"DO that commits", "DO $$ BEGIN COMMIT; UPDATE t SET v = 1 WHERE id = 1; COMMIT; END $$", ""},
	{"CALL with its own COMMIT", "CALL commits()", ""},
	{"partitioned table", "INSERT INTO part VALUES (1, 1)", ""},
	{"partition", "UPDATE part_2 SET v = 1", ""},
	{"partition below a partition", "INSERT INTO part_1a VALUES (1, 1)", ""},
	{"between them", "DELETE FROM part_1", ""},
	{"TRUNCATE of a partition", "TRUNCATE part_1a", ""},
	{"TRUNCATE of the partitioned table", "TRUNCATE part", ""},
	{"row that moves to another partition", "UPDATE part SET id = 13 WHERE id = 1", ""},
	{"inheritance parent", "UPDATE parent SET v = 2", ""},
	{"inheritance child", "UPDATE child SET v = 2", ""},
	{"inheritance grandchild", "INSERT INTO grandchild VALUES (2)", ""},
	{"inheritance ONLY", "DELETE FROM ONLY child", ""},
	{"savepoint", "BEGIN; SAVEPOINT s; UPDATE t SET v = 1 WHERE id = 1; COMMIT", ""},
}

// I1 in the database: a client that bypasses the proxy, straight at PostgreSQL, by every way that leads to a fenced
// table: refused with a stale token and without one, let through with the mark. The table's owner is no exception.
func TestEveryWayToAFencedTable(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		c := pgtest.Start(t, pgtest.WithInstallation(i))
		w := newWorld(t, c, waysTables)
		w.install(waysConfig)
		before := w.contents()
		ways := slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return i.Major < 15 && strings.HasPrefix(w.sql, "MERGE") })
		for _, raw := range []string{"33", "", "x=34", "35", "f=33,f2=34"} {
			want := map[string]string{"33": "ZF001", "": "ZF002", "x=34": "ZF002", "35": "ZF006", "f=33,f2=34": "ZF001"}[raw]
			app := w.dial("app").token(raw)
			for _, way := range ways {
				expected := want
				if way.stale != "" {
					expected = way.stale
				}
				expect(t, "token "+raw+", "+way.name, app.do(way.sql), expected)
				app.do("ROLLBACK; DEALLOCATE ALL")
			}
		}
		expect(t, "what the tables hold afterwards", w.contents(), before)
		for _, raw := range []string{"34", "f=34", "x=1,f=34"} {
			for _, way := range ways {
				app := w.dial("app").token(raw)
				app.must("BEGIN; SAVEPOINT fresh") // so that each way begins from the same
				if strings.Contains(way.sql, "COMMIT") || strings.HasPrefix(way.sql, "CALL") {
					app.must("ROLLBACK")
				}
				if got := app.do(way.sql); !strings.HasPrefix(got, "ok") {
					t.Errorf("token %s, %s: %s", raw, way.name, got)
				}
				app.do("ROLLBACK")
				app.Close(ctx)
			}
		}
	})
}

func (w *world) contents() string {
	return w.su.do(`SELECT string_agg(r::text, ' ' ORDER BY r::text) FROM (
		SELECT row('t', t.*) FROM t UNION ALL SELECT row('kid', kid.*) FROM kid UNION ALL SELECT row('part', part.*) FROM part UNION ALL SELECT row('parent', parent.*) FROM parent) AS x (r)`)
}
