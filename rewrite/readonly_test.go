package rewrite

import "testing"

// TestPastReadOnly: what a READ ONLY transaction does not stop.
func TestPastReadOnly(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for sql, want := range map[string]bool{
		"COPY accounts TO PROGRAM 'x'": true, "COPY u FROM PROGRAM 'x'": true, "COPY u TO '/x'": true, "COPY u FROM '/x'": true, "COPY (SELECT lo_unlink(1)) TO STDOUT": true,
		"SELECT lo_create(0)": true, "SELECT a FROM t WHERE pg_catalog.lo_unlink(a) > 0": true, "SELECT pg_logical_emit_message(true, 'a', 'b')": true, "SELECT pg_reload_conf()": true,
		"PREPARE p AS SELECT lo_create(0)": true, "EXPLAIN ANALYZE SELECT lo_create(0)": true, "INSERT INTO u SELECT lo_creat(1)": true, "DECLARE c CURSOR FOR SELECT lo_create(0)": true,
		"SELECT dblink_exec('x', 'y')": true, "SELECT * FROM public.dblink('x', 'y') AS d (a int)": true, "SELECT pg_file_write('a', 'b', true)": true,
		"SELECT nextval('s')": false, "SELECT setval('s', 1)": false, "INSERT INTO u VALUES (1)": false, "COPY u FROM STDIN": false, "COPY u TO STDOUT": false, "SELECT g()": false,
		"SELECT lo_get(1)": false, "SELECT pg_advisory_lock(1)": false, "NOTIFY x": false, "DO 'BEGIN END'": false, "EXPLAIN SELECT lo_create(0)": false, "SELECT app.lo_create(0)": false,
	} {
		an := a.Analyze(&sc, []byte(sql), Settings{})
		if got := an.Statements[0].PastReadOnly; an.Failure != "" || got != want {
			t.Errorf("%s: %v, want %v %s", sql, got, want, an.Failure)
		}
	}
	// a cast of an argument of set_config is code
	for sql, opaque := range map[string]bool{
		"SELECT set_config('work_mem', '1MB'::evil, false)": true, "SELECT set_config('work_mem', $1::app.evil, false)": true, "SELECT set_config('work_mem', '1MB', 'f'::app.evil)": true,
		"SELECT set_config('work_mem', '1MB'::text, false)": false, "SELECT set_config('work_mem', $1, $2::bool)": false,
	} {
		if an := a.Analyze(&sc, []byte(sql), Settings{}); (an.Effect == EffectOpaque) != opaque || an.Plain == opaque {
			t.Errorf("%s: %s", sql, describe(an, fencesByName))
		}
	}
}
