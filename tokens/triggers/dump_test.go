package triggers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// COPY FROM, as pg_restore and psql use it.
func TestCopyFrom(t *testing.T) {
	w := shared(t, "CREATE TABLE t (id int); CREATE TABLE part (id int) PARTITION BY RANGE (id); CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10)")
	w.install(config("t", "part"))
	for _, table := range []string{"t", "part", "part_1"} {
		for raw, want := range map[string]string{"33": "ZF001", "": "ZF002", "34": "ok"} {
			a := w.dial("app").token(raw)
			_, err := a.PgConn().CopyFrom(ctx, strings.NewReader("1\n2\n"), "COPY "+table+" FROM STDIN")
			got := "ok"
			if err != nil {
				got = code(err)
			}
			expect(t, "COPY "+table+", token "+raw, got, want)
		}
	}
}

// A dump is restored into an empty database without a token, because its triggers come after its data, and has them
// afterwards. Into tables that are fenced already, data needs a token or a bypass.
func TestDumpAndRestore(t *testing.T) {
	w := shared(t, many)
	if w.c.Major < 15 {
		t.Skip("the machine's pg_dump writes what this server does not read")
	}
	w.su.must("INSERT INTO t VALUES (1, 1); INSERT INTO part VALUES (1, 1)")
	c := config("t", "part")
	c.Watch = true
	w.install(c)
	w.su.must("SELECT fence.allow_bypass('deploy', 'restores')")
	dir := t.TempDir()
	run := func(options, program string, args ...string) (string, error) {
		cmd := exec.Command(w.c.Program(program), args...)
		cmd.Env = append(os.Environ(), "PGOPTIONS="+options)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	whole, data := filepath.Join(dir, "whole"), filepath.Join(dir, "data")
	if out, err := run("", "pg_dump", "-Fc", "-f", whole, w.c.DSN(w.db, "postgres")); err != nil {
		t.Fatal(out)
	}
	if out, err := run("", "pg_dump", "-Fc", "-a", "-N", "fence", "-f", data, w.c.DSN(w.db, "postgres")); err != nil {
		t.Fatal(out)
	}
	copied := &world{t: t, c: w.c, db: w.c.NewDatabase(t)}
	if out, err := run("", "pg_restore", "-e", "-d", copied.c.DSN(copied.db, "postgres"), whole); err != nil {
		t.Fatal(out)
	}
	copied.su = copied.dial("postgres")
	expect(t, "states of the copy", states(copied.compare(c)), "")
	if p := copied.compare(c); !p.Watched || len(p.Steps) > 0 {
		t.Errorf("the copy: %v %+v", p.Watched, p.Steps)
	}
	for _, tt := range []struct{ what, options, want string }{
		{"without a token", "", "requires a fencing token"},
		{"stale", "-c fence.token=33", "stale fencing token"},
		{"with the mark", "-c fence.token=34", ""},
		{"bypass", "-c fence.bypass=restore", ""},
	} {
		out, err := run(tt.options, "pg_restore", "-e", "-d", copied.c.DSN(copied.db, "deploy"), data)
		if (err == nil) != (tt.want == "") || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v %s", tt.what, err, out)
		}
	}
	expect(t, "rows", copied.su.do("SELECT count(*) FROM t"), "ok:3")
	expect(t, "log", copied.su.do("SELECT count(*), max(application) FROM fence.bypassed"), "ok:1|pg_restore")
}
