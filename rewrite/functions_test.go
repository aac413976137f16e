package rewrite

import (
	"fmt"
	"testing"
)

func TestI5FunctionsAreOpaqueUnlessKnown(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for _, tt := range []struct {
		call string
		want Effect
	}{
		{"lower('A')", EffectNone}, {"LOWER('A')", EffectNone}, {"pg_catalog.lower('A')", EffectNone},
		{`"LOWER"('A')`, EffectOpaque}, {"public.lower('A')", EffectOpaque}, {"now()", EffectNone},
		{"f()", EffectOpaque}, {"app.f()", EffectOpaque}, {"coalesce(f(), 1)", EffectOpaque}, {"lower(f())", EffectOpaque},
		{"score(1)", EffectNone}, {"app.score(1)", EffectOpaque}, {"app.total(1)", EffectNone}, {"total(1)", EffectOpaque},
		{"(SELECT f())", EffectOpaque}, {"CASE WHEN true THEN f() END", EffectOpaque}, {"sum(f()) OVER (ORDER BY f())", EffectOpaque},
		{"1 OPERATOR(app.+) 2", EffectOpaque}, {"1 <+> 2", EffectOpaque}, {"<+> 2", EffectOpaque},
		{"1 BETWEEN 0 AND 2", EffectNone}, {"1 NOT BETWEEN SYMMETRIC 2 AND 0", EffectNone}, {"'a' NOT SIMILAR TO 'b'", EffectNone},
		{"'happy'::mood", EffectOpaque}, {"CAST(1 AS app.positive)", EffectOpaque}, {"'{1}'::mood[]", EffectOpaque},
		{"1::int", EffectNone}, {"'{a}'::text[]", EffectNone}, {"'1 day'::interval hour", EffectNone}, {"NULL::double precision", EffectNone},
		{"'a'::varchar(3) <> ALL ('{}')", EffectNone}, {"timestamp with time zone 'now'", EffectNone}, {"'1'::public.int4", EffectOpaque}, {"1 OPERATOR(pg_catalog.+) 2", EffectNone}, {"1 = ANY (SELECT 2)", EffectNone},
		{"1 OPERATOR(app.=) ANY (SELECT 2)", EffectOpaque}, {"1 OPERATOR(app.=) ANY (ARRAY[2])", EffectOpaque},
		{"nextval('s')", EffectWrite}, {"setval('s', 1)", EffectWrite}, {"currval('s')", EffectNone},
		{"lo_create(0)", EffectWrite}, {"lo_open(1, 131072)", EffectWrite}, {"lo_get(1)", EffectNone}, {"lowrite(1, 'x')", EffectWrite},
		{"pg_logical_emit_message(true, 'a', 'b')", EffectWrite}, {"pg_replication_origin_create('x')", EffectWrite},
		{"pg_import_system_collations('x')", EffectWrite}, {"pg_terminate_backend(1)", EffectWrite}, {"pg_reload_conf()", EffectWrite},
		{"query_to_xml('select f()', true, true, '')", EffectOpaque}, {"cursor_to_xml('c', 1, true, true, '')", EffectOpaque},
		{"table_to_xml('v', true, true, '')", EffectOpaque}, {"ts_stat('select f()')", EffectOpaque},
		{"ts_rewrite('a', 'select f()')", EffectOpaque}, {"dblink('', 'x')", EffectOpaque}, {"crosstab('select f()')", EffectOpaque},
		{"pg_file_write('a', 'b', true)", EffectOpaque}, {"brin_summarize_new_values('i')", EffectOpaque},
		{"pg_restore_relation_stats('a', 1)", EffectOpaque}, {"binary_upgrade_set_next_pg_type_oid(1)", EffectOpaque},
		{"pg_notify('a', 'b')", EffectNone}, {"pg_advisory_xact_lock(1)", EffectLock}, {"pg_sleep(0)", EffectNone},
		{"uuidv7()", EffectNone}, {"gen_random_uuid()", EffectNone}, {"fence.guard_session('')", EffectNone},
		{"fence.bump('x')", EffectOpaque}, {"plpgsql_validator(1)", EffectOpaque},
	} {
		for _, form := range []string{"SELECT %s", "SELECT 1 FROM t WHERE (%s) IS NULL", "SELECT 1 FROM t ORDER BY %s", "SELECT * FROM t JOIN u ON (%s) IS NULL", "SELECT 1 LIMIT (%s)::text::int"} {
			sql := fmt.Sprintf(form, tt.call)
			if an := a.Analyze(&sc, []byte(sql), Settings{}); an.Effect != tt.want {
				t.Errorf("%s: %v, want %v %s", sql, an.Effect, tt.want, an.Failure)
			}
		}
	}
	for _, sql := range []string{
		"SELECT * FROM f()", "SELECT * FROM ROWS FROM (lower('a'), f()) x", "SELECT * FROM t TABLESAMPLE app.mine (1)",
		"SELECT 1 FROM t ORDER BY a USING OPERATOR(app.<)", "VALUES (f())", "SELECT * FROM t WINDOW w AS (ORDER BY f())",
		"SELECT 1 GROUP BY f()", "SELECT 1 HAVING f()", "SELECT DISTINCT ON (f()) 1", "SELECT 1 FETCH FIRST f() ROWS ONLY",
		"SELECT * FROM LATERAL (SELECT f()) x", "WITH x AS (SELECT f()) SELECT 1", "SELECT ARRAY(SELECT f())", "SELECT a[f()] FROM t",
		"INSERT INTO t VALUES (1) ON CONFLICT (f(a)) DO NOTHING", "INSERT INTO t VALUES (1) RETURNING f()", "UPDATE t SET (a, b) = (SELECT f(), 1)",
		"MERGE INTO t USING u ON f() WHEN MATCHED THEN DO NOTHING", "SELECT JSON_OBJECT('a' VALUE f())", "SELECT XMLFOREST(f() AS a)",
		"SELECT * FROM XMLTABLE('/a' PASSING f() COLUMNS b text)", "SELECT f() IS JSON", "SELECT (f()).x", "SELECT ROW(f())",
		"SELECT count(*) FILTER (WHERE f())", "SELECT string_agg(a, ',' ORDER BY f()) FROM t", "SELECT NOT f()", "SELECT f() IS DISTINCT FROM 1",
		"SELECT * FROM JSON_TABLE(f(), '$' COLUMNS (a int PATH '$'))", "SELECT f()::int", "SELECT f() COLLATE \"C\"", "SELECT f(VARIADIC ARRAY[1])",
	} {
		if an := a.Analyze(&sc, []byte(sql), Settings{}); an.Effect != EffectOpaque {
			t.Errorf("%s: %v, want opaque %s", sql, an.Effect, an.Failure)
		}
	}
}

// The lists must not contradict each other, and nothing that runs SQL or writes may slip into the harmless one when it
// is generated again.
func TestI5HarmlessListHasNoWriters(t *testing.T) {
	list := harmless()
	if len(list) < 1500 {
		t.Fatalf("%d names", len(list))
	}
	for w := range writers {
		if list[w] {
			t.Errorf("%s is in both lists", w)
		}
	}
	for _, name := range []string{"set_config", "query_to_xml", "cursor_to_xml", "schema_to_xml", "database_to_xml", "table_to_xml",
		"ts_stat", "ts_rewrite", "brin_summarize_range", "brin_desummarize_range", "gin_clean_pending_list", "plpgsql_call_handler",
		"domain_in", "record_in", "array_in", "lo_import", "pg_stat_reset", "pg_extension_config_dump"} {
		if list[name] {
			t.Errorf("%s is no harmless function", name)
		}
	}
}
