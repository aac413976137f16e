package catalog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// I1: what is known of a standby is known when it becomes the primary, without a look in between.
func TestI1WatcherOfAStandbyThatIsPromoted(t *testing.T) {
	c := pgtest.Start(t)
	db := c.NewDatabase(t)
	c.Exec(t, db, "CREATE TABLE t (id int); CREATE TABLE part (id int) PARTITION BY RANGE (id); CREATE VIEW seen AS SELECT * FROM t")
	c.Stop()
	// A standby without a primary: it replays what it has and waits for more.
	if err := os.WriteFile(filepath.Join(c.SocketDir(), "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Restart(t)
	d := watcher(t, c, 200*time.Millisecond).Database(db)
	changed := d.Changed()
	if d.Snapshot() == nil {
		next(t, "in recovery", changed)
	}
	if v := d.Snapshot().Fences[0].Views(); len(v) != 1 {
		t.Errorf("views %v", v)
	}
	c.Exec(t, db, "SELECT pg_promote()")
	changed = d.Changed()
	c.Exec(t, db, "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10)")
	next(t, "behind the promotion", changed)
	if d.Err() != nil {
		t.Error(d.Err())
	}
}
