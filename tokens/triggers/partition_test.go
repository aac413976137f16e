package triggers

import (
	"context"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// A fenced partition or child below a table that is not fenced: the statement names the parent, whose triggers know
// nothing. Rows are guarded one by one there.
func TestFencedBelowAnUnfencedParent(t *testing.T) {
	w := shared(t, `
		CREATE TABLE part (id int, v int) PARTITION BY RANGE (id);
		CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
		CREATE TABLE part_1a PARTITION OF part_1 FOR VALUES FROM (0) TO (5);
		CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20);
		INSERT INTO part VALUES (1, 1), (11, 1);
		CREATE TABLE parent (id int, v int); CREATE TABLE child () INHERITS (parent); CREATE TABLE grandchild () INHERITS (child);
		INSERT INTO parent VALUES (1, 1); INSERT INTO grandchild VALUES (2, 2)`)
	c := config("part_1", "child")
	w.install(c)
	expect(t, "states", states(w.compare(c)), "")
	for _, tt := range []struct{ sql, stale string }{
		{"INSERT INTO part VALUES (2, 2)", "ZF001"},
		{"UPDATE part SET v = 2", "ZF001"},
		{"UPDATE part SET v = 2 WHERE id = 11", "ok"},
		{"DELETE FROM part WHERE id = 1", "ZF001"},
		{"UPDATE part SET id = 12 WHERE id = 1", "ZF001"},
		{"UPDATE part SET id = 2 WHERE id = 11", "ZF001"},
		{"TRUNCATE part", "ZF001"},
		{"TRUNCATE part_2", "ok"},
		{"INSERT INTO part VALUES (12, 2)", "ok"},
		{"INSERT INTO part_1a VALUES (2, 2)", "ZF001"},
		{"UPDATE parent SET v = 2", "ZF001"},
		{"UPDATE parent SET v = 2 WHERE id = 1", "ok"},
		{"UPDATE ONLY parent SET v = 2", "ok"},
		{"DELETE FROM parent WHERE id = 2", "ZF001"},
		{"TRUNCATE parent", "ZF001"},
		{"INSERT INTO child VALUES (2)", "ZF001"},
	} {
		for raw, want := range map[string]string{"33": tt.stale, "34": "ok"} {
			a := w.dial("app").token(raw)
			a.must("BEGIN")
			expect(t, "token "+raw+", "+tt.sql, a.do(tt.sql), want)
			a.Close(ctx)
		}
	}
	// The parent joins the fence: the row triggers are no longer asked for.
	c = config("part", "parent")
	w.install(c)
	p := w.compare(c)
	expect(t, "states", states(p), "")
	if len(p.Notes) != 3 || !strings.Contains(p.Notes[0], `"child" has a trigger fence_guard_row that the configuration does not ask for`) {
		t.Errorf("notes: %q", p.Notes)
	}
}

// What is created or attached later has no guard until init --triggers runs again, and is shown as missing.
func TestPartitionAddedLater(t *testing.T) {
	w := shared(t, `CREATE TABLE part (id int, v int) PARTITION BY RANGE (id); CREATE TABLE parent (id int); CREATE TABLE later (id int, v int)`)
	c := config("part", "parent")
	w.install(c)
	app := w.dial("app").token("33")
	app.must("CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10); CREATE TABLE child () INHERITS (parent)")
	expect(t, "written by its own name", app.do("INSERT INTO part_1 VALUES (1)"), "ok")
	expect(t, "written by its parent's name", app.do("INSERT INTO part VALUES (1)"), "ZF001")
	p := w.compare(c)
	expect(t, "states", states(p), "child fence_guard missing, part_1 fence_guard missing")
	if p.Watched {
		t.Error("there is no event trigger, and the plan says there is")
	}
	w.install(c)
	expect(t, "states", states(w.compare(c)), "")
	expect(t, "written by its own name", app.do("INSERT INTO part_1 VALUES (1)"), "ZF001")
}

// With the event triggers new partitions and children are guarded in the transaction that makes them, whoever makes them.
func TestEventTriggersGuardWhatComesLater(t *testing.T) {
	for _, always := range []bool{false, true} {
		w := shared(t, `CREATE TABLE part (id int, v int) PARTITION BY RANGE (id); CREATE TABLE parent (id int, v int); CREATE TABLE loose (id int, v int) PARTITION BY RANGE (id);
			CREATE TABLE loose_1 PARTITION OF loose FOR VALUES FROM (30) TO (40); CREATE TABLE up (id int) PARTITION BY RANGE (id); CREATE TABLE fenced_alone (id int)`)
		w.su.must("SELECT fence.raise('g', 0, 7, 'seed', NULL)")
		c := config("part", "parent", "fenced_alone")
		c.Always, c.Watch = always, true
		c.Fences = append(c.Fences, catalog.Fence{Name: "g", Tables: c.Fences[0].Tables[1:2]})
		if p := w.install(c); p.Watched {
			t.Error("watched before it was installed")
		}
		listener := w.dial("app")
		listener.must("LISTEN fence_ddl")
		app := w.dial("app").token("33,g=7")
		for _, ddl := range []string{
			"CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id)",
			"CREATE TABLE part_1a PARTITION OF part_1 FOR VALUES FROM (0) TO (5)",
			"CREATE TABLE ready (id int, v int); ALTER TABLE part ATTACH PARTITION ready FOR VALUES FROM (10) TO (20)",
			"ALTER TABLE part ATTACH PARTITION loose FOR VALUES FROM (30) TO (40)",
			"CREATE TABLE child () INHERITS (parent); CREATE TABLE grandchild () INHERITS (child)",
			"CREATE TABLE adopted (id int, v int); ALTER TABLE adopted INHERIT parent",
			"ALTER TABLE up ATTACH PARTITION fenced_alone FOR VALUES FROM (0) TO (10)",
			"CREATE TABLE unrelated (id int); INSERT INTO unrelated VALUES (1); ALTER TABLE unrelated ADD c int",
			"SET search_path = pg_temp, public; CREATE TABLE public.part_5 PARTITION OF public.part FOR VALUES FROM (50) TO (60); RESET search_path",
		} {
			expect(t, ddl, app.do(ddl), "ok")
			listener.hears(ddl)
		}
		p := w.compare(c)
		expect(t, "states", states(p), "")
		if !p.Watched || len(p.Steps) > 0 {
			t.Errorf("%v, steps %+v", p.Watched, p.Steps)
		}
		for _, s := range p.Tables {
			if s.Always != always {
				t.Errorf("%s: always %v", s.Relation, s.Always)
			}
		}
		for _, write := range []string{"INSERT INTO part_1a VALUES (1)", "INSERT INTO ready VALUES (11)", "TRUNCATE loose_1", "INSERT INTO grandchild VALUES (1)", "DELETE FROM adopted", "INSERT INTO up VALUES (1)", "INSERT INTO part_5 VALUES (51)"} {
			expect(t, write, app.do(write), "ZF001")
		}
		// temporary tables are the session's own, and nobody is told
		app.must("CREATE TEMP TABLE scratch () INHERITS (parent); DROP TABLE scratch; CREATE TABLE last (id int)")
		for _, want := range []string{"CREATE last", "DROP last"} {
			listener.hears(want)
			expect(t, "nothing more than "+want, listener.do("SELECT 1"), "ok:1")
			if want == "CREATE last" {
				app.must("DROP TABLE last")
			}
		}
		if n := len(listenerBacklog(listener)); n != 0 {
			t.Errorf("%d notifications too many", n)
		}
	}
}

// hears waits for one notification.
func (s *session) hears(what string) {
	s.w.t.Helper()
	c, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if _, err := s.WaitForNotification(c); err != nil {
		s.w.t.Fatalf("%s: nobody was told: %v", what, err)
	}
}

func listenerBacklog(s *session) []string {
	c, cancel := contextSoon()
	defer cancel()
	var list []string
	for {
		n, err := s.WaitForNotification(c)
		if err != nil {
			return list
		}
		list = append(list, n.Channel)
	}
}

// Only a superuser makes event triggers; anybody else is told.
func TestEventTriggersNeedASuperuser(t *testing.T) {
	w := shared(t, one)
	app := w.dial("app")
	c := config("t")
	c.Watch = true
	p, err := Install(ctx, app.Conn, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "only a superuser") {
		t.Errorf("notes: %q", p.Notes)
	}
	expect(t, "the guard is there", app.token("33").do("UPDATE t SET v = 1 WHERE id = 1"), "ZF001")
}
