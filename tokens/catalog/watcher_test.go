package catalog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

const deadline = 20 * time.Second

func next(t *testing.T, what string, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(deadline):
		t.Fatalf("%s: no new snapshot", what)
	}
}

func watcher(t *testing.T, c *pgtest.Cluster, every time.Duration) *Watcher {
	w, err := NewWatcher(WatcherConfig{DSN: c.DSN("postgres", "postgres"), Fences: fence("t", "part"), Every: every})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// Without event triggers a change is found by the fingerprint; what does not concern the fences is no change.
func TestWatcherPolls(t *testing.T) {
	c := pgtest.Shared(t)
	one, two := c.NewDatabase(t), c.NewDatabase(t)
	c.Exec(t, one, "CREATE TABLE t (id int); CREATE TABLE part (id int) PARTITION BY RANGE (id)")
	w := watcher(t, c, 100*time.Millisecond)
	d := w.Database(one)
	changed := d.Changed()
	if d.Snapshot() == nil {
		next(t, "first", changed)
	}
	if d != w.Database(one) || d == w.Database(two) {
		t.Error("a database is not one Watched")
	}
	for i, ddl := range []string{
		"CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10)",
		"CREATE VIEW seen AS SELECT * FROM t",
		"CREATE FUNCTION touch() RETURNS void LANGUAGE sql AS 'DELETE FROM t'",
		"ALTER TABLE t ADD c int",
		"ALTER TABLE t RENAME TO elsewhere",
		"DROP TABLE part",
	} {
		changed := d.Changed()
		c.Exec(t, one, ddl)
		next(t, ddl, changed)
		if got := d.Snapshot().Generation; got != uint64(i+2) {
			t.Errorf("%s: generation %d", ddl, got)
		}
	}
	before := d.Snapshot()
	c.Exec(t, one, "CREATE TABLE unrelated (id int); DROP TABLE unrelated")
	d.Reload()
	time.Sleep(300 * time.Millisecond)
	if d.Snapshot() != before {
		t.Error("a change that does not concern the fences made a new snapshot")
	}
}

// Whoever changes the catalog and goes on working is found as well, and a locked table keeps nobody from knowing the others.
func TestI1WatcherBesideABusySession(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		c := pgtest.Start(t, pgtest.WithInstallation(i))
		db := c.NewDatabase(t)
		c.Exec(t, db, "CREATE TABLE t (id int, v int DEFAULT 7); CREATE VIEW seen AS SELECT id FROM t; CREATE TABLE part (id int) PARTITION BY RANGE (id)")
		locker := c.Connect(t, db, "postgres")
		for _, sql := range []string{"BEGIN", "LOCK TABLE t", "LOCK TABLE seen"} {
			if _, err := locker.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
		w := watcher(t, c, 200*time.Millisecond)
		d := w.Database(db)
		changed := d.Changed()
		if d.Snapshot() == nil {
			next(t, "first, beside locks", changed)
		}
		conn := c.Connect(t, db, "postgres")
		for k := range 3 {
			changed := d.Changed()
			begin := time.Now()
			if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE TABLE part_%[1]d PARTITION OF part FOR VALUES FROM (%[1]d) TO (%[2]d)", k, k+1)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(ctx, "BEGIN"); err != nil { // as an application that goes on working
				t.Fatal(err)
			}
			next(t, "partition", changed)
			if took := time.Since(begin); took > time.Second { // five times the interval; the tenth look would be 2 s
				t.Errorf("partition %d is known after %v", k, took)
			}
			if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// With the event triggers a change is told at once; an hour's interval shows that nobody polled.
func TestWatcherListens(t *testing.T) {
	c := pgtest.Start(t)
	db := c.NewDatabase(t)
	if _, err := tokens.Install(ctx, c.Connect(t, db, "postgres")); err != nil {
		t.Fatal(err)
	}
	c.Exec(t, db, `CREATE TABLE t (id int); CREATE TABLE other (id int); CREATE TABLE part (id int) PARTITION BY RANGE (id);
		CREATE EVENT TRIGGER fence_ddl_end ON ddl_command_end EXECUTE FUNCTION fence.ddl_end();
		CREATE EVENT TRIGGER fence_ddl_drop ON sql_drop EXECUTE FUNCTION fence.ddl_drop()`)
	d := watcher(t, c, time.Hour).Database(db)
	changed := d.Changed()
	if d.Snapshot() == nil {
		next(t, "first", changed)
	}
	for _, ddl := range []string{"CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10)", "CREATE RULE r AS ON INSERT TO other DO ALSO DELETE FROM t",
		"CREATE FUNCTION touch() RETURNS void LANGUAGE sql AS 'DELETE FROM t'", "DROP FUNCTION touch", "DROP TABLE part_1", "CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s"} {
		changed := d.Changed()
		c.Exec(t, db, ddl)
		next(t, ddl, changed)
	}
	// the server goes away and comes back
	old := d.Snapshot()
	c.Kill()
	for end := time.Now().Add(deadline); d.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody noticed that the server is gone")
		}
	}
	if d.Snapshot() != old {
		t.Error("the last snapshot is lost")
	}
	c.Restart(t)
	changed = d.Changed()
	c.Exec(t, db, "ALTER TABLE s.t SET SCHEMA public")
	d.Reload()
	next(t, "after the restart", changed)
	if d.Err() != nil {
		t.Error(d.Err())
	}
}

// A database that is dropped is watched no longer.
func TestWatcherOfADroppedDatabase(t *testing.T) {
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	w := watcher(t, c, 100*time.Millisecond)
	d := w.Database(db)
	changed := d.Changed()
	if d.Snapshot() == nil {
		next(t, "first", changed)
	}
	c.Exec(t, "postgres", "DROP DATABASE "+db+" WITH (FORCE)")
	for end := time.Now().Add(deadline); w.Database(db) == d; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("still watched")
		}
	}
}

// BenchmarkRead: a database of 500 tables, 500 views and 500 functions, ten of the tables fenced.
func BenchmarkRead(b *testing.B) {
	c := pgtest.Start(b)
	db := c.NewDatabase(b)
	c.Exec(b, db, `DO $$ BEGIN FOR i IN 1..500 LOOP
		EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, v text)', i);
		EXECUTE format('CREATE VIEW v%s AS SELECT * FROM t%s', i, i);
		EXECUTE format('CREATE FUNCTION f%s(i int) RETURNS void LANGUAGE plpgsql AS $f$ BEGIN UPDATE t%s SET v = 1 WHERE id = i; END $f$', i, i);
	END LOOP; END $$`)
	conn := c.Connect(b, db, "postgres")
	fences := fence("t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10")
	b.Run("everything", func(b *testing.B) {
		for b.Loop() {
			if _, err := Read(context.Background(), conn, fences); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fingerprint", func(b *testing.B) {
		for b.Loop() {
			if _, err := fingerprint(context.Background(), conn); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Looks are paced, but not for somebody who waits for one; and nobody waits for one that cannot be had.
func TestWatcherHurries(t *testing.T) {
	c := pgtest.Start(t)
	db := c.NewDatabase(t)
	c.Exec(t, db, "CREATE TABLE t (id int); CREATE TABLE part (id int) PARTITION BY RANGE (id)")
	d := watcher(t, c, time.Hour).Database(db)
	wait := func(hurry bool) (took time.Duration) {
		t.Helper()
		begin, n := time.Now(), d.Reload()
		for {
			ok, next := d.Looked(n)
			if ok {
				return time.Since(begin)
			}
			if hurry {
				d.Hurry()
			}
			select {
			case <-next:
			case <-time.After(deadline):
				t.Fatal("no look")
			}
		}
	}
	// What is saved up is spent by these: if they were paced, they would take ten times as long. Then one without hurry waits a
	// second from the end of the last look on; a machine that stands still meanwhile shows nothing.
	const looks = 200
	var all, worst, paced time.Duration
	for range 3 {
		all, worst = 0, 0
		for range looks {
			took := wait(true)
			all, worst = all+took, max(worst, took)
		}
		if paced = wait(false); paced >= 500*time.Millisecond {
			break
		}
	}
	t.Logf("%d looks in %v, the longest %v; then one without hurry %v", looks, all, worst, paced)
	if paced < 500*time.Millisecond {
		t.Errorf("without hurry a look came after %v: nothing shows that the others were hurried", paced)
	}
	if mean := all / looks; mean > 200*time.Millisecond {
		t.Errorf("a look took %v", mean)
	}
	c.Kill()
	eventually(t, "the connection is lost", func() bool { ok, _ := d.Looked(1 << 62); return ok })
	c.Restart(t)
	eventually(t, "there are looks again", func() bool { ok, _ := d.Looked(1 << 62); return !ok })
	if took := wait(true); took > deadline {
		t.Error(took)
	}
}
