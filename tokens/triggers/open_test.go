package triggers

import (
	"strings"
	"testing"
)

// What triggers do not hold: docs/triggers.md says so, and this test that it is so. A trigger that is off is shown.
func TestWhatStaysOpen(t *testing.T) {
	const tables = one + `;
		CREATE TABLE part (id int, v int) PARTITION BY RANGE (id);
		CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10); INSERT INTO part VALUES (1, 1);
		CREATE TABLE loose (id int, v int); INSERT INTO loose VALUES (11, 1);
		CREATE SEQUENCE s OWNED BY t.id; CREATE MATERIALIZED VIEW m AS SELECT * FROM part`
	for _, tt := range []struct {
		what, sql string
		shown     string // by the states afterwards
	}{
		{"ATTACH PARTITION with data", "ALTER TABLE part ATTACH PARTITION loose FOR VALUES FROM (10) TO (20)", "loose fence_guard missing"},
		{"DETACH PARTITION", "ALTER TABLE part DETACH PARTITION part_1", ""},
		{"DROP TABLE", "DROP TABLE part_1", ""},
		{"ALTER TABLE that rewrites", "ALTER TABLE t ALTER v TYPE bigint USING 7", ""},
		{"ADD COLUMN with a default", "ALTER TABLE t ADD c int DEFAULT 3", ""},
		{"rename", "ALTER TABLE t RENAME TO elsewhere; UPDATE t SET v = 1", "42P01"},
		{"DISABLE TRIGGER by the owner", "ALTER TABLE t DISABLE TRIGGER fence_guard; UPDATE t SET v = 1", "t fence_guard disabled"},
		{"DISABLE TRIGGER USER", "ALTER TABLE t DISABLE TRIGGER USER; DELETE FROM t", "t fence_guard disabled"},
		{"ENABLE REPLICA", "ALTER TABLE t ENABLE REPLICA TRIGGER fence_guard; DELETE FROM t", "t fence_guard disabled"},
		{"DROP TRIGGER by the owner", "DROP TRIGGER fence_guard ON t; UPDATE t SET v = 1", "t fence_guard missing"},
		{"sequence", "SELECT nextval('s')", ""},
		{"refresh of a materialized view", "REFRESH MATERIALIZED VIEW m", ""},
		{"VACUUM FULL", "VACUUM FULL t", ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			w := shared(t, tables)
			w.install(config("t", "part"))
			got := w.dial("app").token("33").do(tt.sql)
			if tt.shown == "42P01" {
				expect(t, "verdict", got, tt.shown)
				return
			}
			if !strings.HasPrefix(got, "ok") {
				t.Errorf("verdict: %s; it is refused now: correct docs/triggers.md", got)
			}
			c := config("t", "part")
			expect(t, "states", states(w.compare(c)), tt.shown)
			w.install(c)
			expect(t, "states after init", states(w.compare(c)), "")
		})
	}
}

// Who may create triggers on a table may replace the guard, without owning the table: GRANT ALL includes it. It is shown,
// and put right.
func TestReplacedTriggerIsShown(t *testing.T) {
	for _, tt := range []struct{ what, sql string }{
		{"another function", "CREATE OR REPLACE TRIGGER fence_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON t EXECUTE FUNCTION deploy_nothing()"},
		{"WHEN", "CREATE OR REPLACE TRIGGER fence_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON t WHEN (false) EXECUTE FUNCTION fence.guard_write('f', 'f')"},
		{"fewer events", "CREATE OR REPLACE TRIGGER fence_guard BEFORE DELETE ON t EXECUTE FUNCTION fence.guard_write('f', 'f')"},
		{"a column", "CREATE OR REPLACE TRIGGER fence_guard BEFORE INSERT OR UPDATE OF id OR DELETE OR TRUNCATE ON t EXECUTE FUNCTION fence.guard_write('f', 'f')"},
		{"after, not before", "CREATE OR REPLACE TRIGGER fence_guard AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON t EXECUTE FUNCTION fence.guard_write('f', 'f')"},
		{"each row", "CREATE OR REPLACE TRIGGER fence_guard BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION fence.guard_write('f', 'f')"},
		{"another fence", "CREATE OR REPLACE TRIGGER fence_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON t EXECUTE FUNCTION fence.guard_write('f', 'g')"},
		{"another fence of bare tokens", "CREATE OR REPLACE TRIGGER fence_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON t EXECUTE FUNCTION fence.guard_write('', 'f')"},
	} {
		w := shared(t, one)
		w.install(config("t"))
		deploy := w.dial("deploy")
		deploy.must("CREATE FUNCTION deploy_nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
		deploy.must(tt.sql)
		expect(t, tt.what, states(w.compare(config("t"))), "t fence_guard altered")
		w.install(config("t"))
		expect(t, tt.what+", after init", states(w.compare(config("t"))), "")
		expect(t, tt.what+", after init", w.dial("app").token("33").do("UPDATE t SET v = 1 WHERE id = 1"), "ZF001")
	}
}

// The trigger's functions run with the writer's search_path, and mean PostgreSQL's own functions, types and operators by
// every name. Mutant "an operator without OPERATOR(pg_catalog.)" in has_mark: the stale token passes.
func TestSearchPathAttack(t *testing.T) {
	w := shared(t, one)
	w.install(config("t"))
	app := w.dial("app").token("33")
	w.su.must("GRANT CREATE ON DATABASE " + w.db + " TO app")
	app.must(`CREATE SCHEMA evil;
		CREATE FUNCTION evil.yes(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true';
		CREATE FUNCTION evil.yes(int4, int4) RETURNS bool LANGUAGE sql AS 'SELECT true';
		CREATE FUNCTION evil.yes(int8, int8) RETURNS bool LANGUAGE sql AS 'SELECT true';
		CREATE FUNCTION evil.yes(xid, xid) RETURNS bool LANGUAGE sql AS 'SELECT true';
		CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = text, RIGHTARG = text);
		CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = int4, RIGHTARG = int4);
		CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = int8, RIGHTARG = int8);
		CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = xid, RIGHTARG = xid);
		CREATE OPERATOR evil.> (FUNCTION = evil.yes, LEFTARG = int4, RIGHTARG = int4);
		CREATE OPERATOR evil.<> (FUNCTION = evil.yes, LEFTARG = text, RIGHTARG = text);
		CREATE FUNCTION evil.strpos(text, text) RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE FUNCTION evil.current_setting(text, bool) RETURNS text LANGUAGE sql AS $$ SELECT '34'::text $$;
		CREATE FUNCTION evil.pg_advisory_xact_lock_shared(int4, int4) RETURNS void LANGUAGE sql AS '';
		CREATE FUNCTION evil.has_mark(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true';
		CREATE FUNCTION evil.btrim(text) RETURNS text LANGUAGE sql AS 'SELECT ''x''::text';
		CREATE DOMAIN evil.text AS pg_catalog.text; CREATE DOMAIN evil.int4 AS pg_catalog.int4;
		CREATE TEMP TABLE mark (id int, name text, epoch int8, token int8, timeline text); INSERT INTO mark VALUES (1, 'f', 0, 33, NULL);
		CREATE TEMP TABLE bypass (role name); INSERT INTO bypass VALUES ('app')`)
	for _, path := range []string{"evil, pg_catalog", "pg_temp, evil, pg_catalog", "evil, pg_temp, pg_catalog, public", ""} {
		app.must("SET search_path = " + map[bool]string{true: "''", false: path}[path == ""])
		expect(t, path, app.do("UPDATE public.t SET v = 1 WHERE id OPERATOR(pg_catalog.=) 1"), "ZF001")
		app.must("SET fence.bypass = 'x'")
		expect(t, path+", bypass", app.do("UPDATE public.t SET v = 1 WHERE id OPERATOR(pg_catalog.=) 1"), "ZF004")
		app.must("SET fence.bypass = ''")
	}
	for _, direct := range []string{"SELECT fence.guard_write()", "SELECT fence.guard_row()", "SELECT fence.ddl_end()"} {
		if got := app.do(direct); strings.HasPrefix(got, "ok") {
			t.Errorf("%s: %s", direct, got)
		}
	}
}

// Row security neither hides the mark nor the trigger.
func TestRowSecurity(t *testing.T) {
	w := shared(t, one+"; ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id < 5)")
	w.install(config("t"))
	expect(t, "stale", w.dial("app").token("33").do("UPDATE t SET v = 1"), "ZF001")
	expect(t, "stale, no row to see", w.dial("app").token("33").do("UPDATE t SET v = 1 WHERE id = 7"), "ZF001")
	expect(t, "fresh", w.dial("app").token("34").do("UPDATE t SET v = 1"), "ok")
}

// The default: triggers do not fire where session_replication_role is replica, which takes a superuser. With Always they do.
func TestReplicaRole(t *testing.T) {
	w := shared(t, one)
	c := config("t")
	w.install(c)
	expect(t, "an application", w.dial("app").do("SET session_replication_role = replica"), "42501")
	su := w.dial("postgres")
	su.must("SET session_replication_role = replica")
	expect(t, "a superuser", su.do("UPDATE t SET v = 1 WHERE id = 1"), "ok")
	c.Always = true
	if p := w.install(c); len(p.Steps) != 1 || !strings.Contains(p.Steps[0].Text, "fire always") {
		t.Errorf("%+v", p.Steps)
	}
	expect(t, "a superuser, ENABLE ALWAYS", su.do("UPDATE t SET v = 1 WHERE id = 1"), "ZF002")
	expect(t, "an application, ENABLE ALWAYS", w.dial("app").token("34").do("UPDATE t SET v = 1 WHERE id = 1"), "ok")
	c.Always = false
	w.install(c)
	expect(t, "a superuser, and back", su.do("UPDATE t SET v = 1 WHERE id = 1"), "ok")
}
