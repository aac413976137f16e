package triggers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

func contextSoon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 300*time.Millisecond)
}

const many = `
	CREATE TABLE t (id int, v int); CREATE TABLE "Odd ""name" (id int); CREATE VIEW seen AS SELECT * FROM t;
	CREATE TABLE part (id int, v int) PARTITION BY RANGE (id); CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10)`

// Done twice it changes nothing; what it removes is gone; what it says it does is what it does.
func TestInstallAndRemove(t *testing.T) {
	w := shared(t, many)
	c := config("t", `Odd "name`, "part", "seen", "nowhere")
	c.Watch = true
	before := w.compare(c)
	var texts []string
	for _, s := range before.Steps {
		texts = append(texts, s.Text)
	}
	want := `"public"."Odd ""name": create the guard (f)
"public"."part": create the guard (f)
"public"."t": create the guard (f)
"public"."part_1": create the guard (f)
the database: create the event trigger that watches DDL (1 of 2)
the database: create the event trigger that watches DDL (2 of 2)`
	if got := strings.Join(texts, "\n"); got != want {
		t.Errorf("steps:\n%s\nwant:\n%s", got, want)
	}
	expect(t, "notes", strings.Join(before.Notes, "; "), `fence f: public.nowhere matches no table; "public"."seen" is a view, which can have no guard: the tables below it need one`)
	expect(t, "the plan changed nothing", w.su.do("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid::regclass::text NOT LIKE 'fence.%'"), "ok:0")
	if p := w.install(c); p.SQL(0) != before.SQL(0) {
		t.Errorf("Install did\n%s\nwhere the plan was\n%s", p.SQL(0), before.SQL(0))
	}
	if p := w.install(c); len(p.Steps) != 0 || p.SQL(0) != "" {
		t.Errorf("the second time: %+v", p.Steps)
	}
	gone, err := Remove(ctx, w.su.Conn, 0)
	if err != nil || len(gone.Steps) != 6 {
		t.Errorf("removed: %+v, %v", gone, err)
	}
	expect(t, "left", w.su.do("SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid::regclass::text NOT LIKE 'fence.%'"), "ok:0")
	expect(t, "left", w.su.do("SELECT count(*) FROM pg_event_trigger"), "ok:0")
	expect(t, "free", w.dial("app").do("INSERT INTO t VALUES (1)"), "ok")
	if gone, err = Removal(ctx, w.su.Conn); err != nil || len(gone.Steps) != 0 {
		t.Errorf("removed again: %+v, %v", gone, err)
	}
	// the text does the same
	w.su.must(before.SQL(0))
	if p := w.compare(c); len(p.Steps) != 0 {
		t.Errorf("after running the printed SQL: %+v", p.Steps)
	}
	// uninstalling the schema takes them along
	w.su.must("DROP SCHEMA fence CASCADE")
	expect(t, "left", w.su.do("SELECT (SELECT count(*) FROM pg_event_trigger) + (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal)"), "ok:0")
	if _, err := Install(ctx, w.su.Conn, c, 0); !errors.Is(err, ErrNoFunctions) {
		t.Errorf("without the schema: %v", err)
	}
	if notes := w.compare(c).Notes; len(notes) == 0 || !strings.HasPrefix(notes[0], "schema fence, whose functions triggers call, is not there") {
		t.Errorf("without the schema: %q", notes)
	}
}

// All or nothing: one table of somebody else, one table that is being written.
func TestInstallIsOneTransaction(t *testing.T) {
	w := shared(t, many)
	w.su.must("CREATE TABLE zz (id int)") // postgres's own
	app := w.dial("app")
	c := config("t", "part", "zz")
	_, err := Install(ctx, app.Conn, c, 0)
	if err == nil || !strings.Contains(err.Error(), `"public"."zz": create the guard`) || !strings.Contains(err.Error(), "grant TRIGGER") {
		t.Errorf("not the owner: %v", err)
	}
	if got := states(w.compare(c)); strings.Count(got, "missing") != 4 {
		t.Errorf("something was done: %s", got)
	}
	w.su.must("GRANT TRIGGER ON zz TO app")
	writer := w.dial("app")
	writer.must("BEGIN; INSERT INTO part VALUES (1, 1)")
	_, err = Install(ctx, app.Conn, c, 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "55P03") || !strings.Contains(err.Error(), "nothing was done") {
		t.Errorf("a writer in the way: %v", err)
	}
	if got := states(w.compare(c)); strings.Count(got, "missing") != 4 {
		t.Errorf("something was done: %s", got)
	}
	writer.must("COMMIT")
	if _, err := Install(ctx, app.Conn, c, 0); err != nil {
		t.Error(err)
	}
	expect(t, "states", states(w.compare(c)), "")
	// To drop takes more than to create, and event triggers take a superuser: the error says whom.
	if _, err := Remove(ctx, app.Conn, 0); err == nil || !strings.HasSuffix(err.Error(), "; the table's owner or a superuser can; nothing was done") {
		t.Errorf("not the owner removes: %v", err)
	}
	c.Watch = true
	w.install(c)
	if _, err := Remove(ctx, app.Conn, 0); err == nil || !strings.HasSuffix(err.Error(), "(SQLSTATE 42501); a superuser can; nothing was done") {
		t.Errorf("event triggers removed by an owner: %v", err)
	}
}

// A table that is no longer in the configuration keeps its guard, and that is told.
func TestTableThatLeftTheConfiguration(t *testing.T) {
	w := shared(t, many)
	w.install(config("t", "part"))
	p := w.compare(config("part"))
	expect(t, "notes", strings.Join(p.Notes, "; "), `"public"."t" has a trigger fence_guard that the configuration does not ask for`)
	if len(p.Steps) > 0 {
		t.Errorf("%+v", p.Steps)
	}
}

// Foreign tables have no TRUNCATE trigger before PostgreSQL 16, and no row triggers are needed.
func TestForeignTable(t *testing.T) {
	w := shared(t, "")
	w.su.must("CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER far FOREIGN DATA WRAPPER nothing; CREATE FOREIGN TABLE away (id int) SERVER far")
	c := config("away")
	w.install(c)
	if p := w.compare(c); len(p.Steps) > 0 || states(p) != "" {
		t.Errorf("%+v", p)
	}
}

// Names in any schema, and whole schemas.
func TestPatterns(t *testing.T) {
	w := shared(t, many)
	w.su.must("CREATE SCHEMA other; CREATE TABLE other.t (id int); CREATE TABLE other.u (id int); CREATE TEMP TABLE t (id int)")
	c := Config{Fences: []catalog.Fence{{Name: "f", Tables: []catalog.Pattern{{Table: "t"}}}, {Name: "g", Tables: []catalog.Pattern{{Schema: "other"}}}}}
	w.install(c)
	expect(t, "triggers", w.su.do("SELECT string_agg(t.tgrelid::regclass || ' ' || encode(t.tgargs, 'escape'), ', ' ORDER BY 1) FROM (SELECT * FROM pg_trigger WHERE tgname = 'fence_guard' ORDER BY tgrelid::regclass::text) t"),
		`ok:other.t \000f\000g\000, other.u \000g\000, public.t \000f\000`)
}
