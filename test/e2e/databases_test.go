package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

var (
	manyDatabases = flag.Int("databases", 6, "databases of TestI1ManyDatabases")
	manyNames     = flag.Int("names", 30, "partitions of a fenced table in each of them")
)

// eachDatabase runs f for every database, a few at a time, on its own goroutine: f must not end the test.
func eachDatabase(dbs []string, f func(i int, db string)) {
	var all sync.WaitGroup
	turn := make(chan struct{}, 8)
	for i, db := range dbs {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			f(i, db)
		})
	}
	all.Wait()
}

// slowest measures a session's replies while others are busy, until the returned function is called.
func slowest(t *testing.T, conn *pgx.Conn) (stop func() string) {
	over, done := make(chan struct{}), make(chan string)
	go func() {
		var took []time.Duration
		for {
			select {
			case <-over:
				slices.Sort(took)
				at := func(share float64) time.Duration { return took[int(share*float64(len(took)-1))] }
				done <- fmt.Sprintf("median %v, 99%% %v, slowest %v", at(0.5), at(0.99), at(1))
				return
			case <-time.After(500 * time.Microsecond):
			}
			begin := time.Now()
			if got := run(conn, "SELECT 1"); got != "" {
				t.Errorf("SELECT 1: %s", got)
			}
			took = append(took, time.Since(begin))
		}
	}()
	return func() string { close(over); return <-done }
}

// I1: with more databases than connections for their catalogs, what leads to a fence is known in all of them, at the start,
// after DDL and when they are made again; and nothing is left when they are not used any more: no connection, so that they
// can be dropped, no goroutine and no plans.
func TestI1ManyDatabases(t *testing.T) {
	n := *manyDatabases
	kept := max(2, n*2/3)
	c := pgtest.Start(t, pgtest.WithSetting("max_connections", fmt.Sprint(6*n+100)))
	template := fenced(t, c)
	c.Exec(t, template, catalogSchema+fmt.Sprintf(`
		DO $$ BEGIN FOR i IN 2..%d LOOP EXECUTE format('CREATE TABLE parts_%%s PARTITION OF parts FOR VALUES IN (%%s)', i, i); END LOOP; END $$`, *manyNames))
	base := fenced(t, c)
	direct := c.Connect(t, "postgres", "postgres")
	var dbs []string
	for i := range n {
		dbs = append(dbs, fmt.Sprintf("tenant_%d", i))
		must(t, direct, "CREATE DATABASE "+dbs[i]+" TEMPLATE "+template)
	}
	p := proxytest.Start(t, c.DSN(base, "postgres"), "--fence", "acct=acct,parts", "--catalog-interval", "500ms", "--catalog-connections", fmt.Sprint(kept))
	watch := p.Connect(t, base, user, "")
	must(t, watch, "SELECT 1")
	aside := c.Connect(t, base, user)
	goroutines, heap := p.Metric(t, "go_goroutines"), p.Metric(t, "go_memstats_heap_inuse_bytes")
	plans := p.Metric(t, "fenceproxy_plan_cache_bytes")
	mostConnections := atomic.Int64{}
	ofProxy := func(application string) int64 {
		return number(t, direct, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname LIKE 'tenant%'", application)
	}

	type sessions struct{ stale, nobody, fresh *pgx.Conn }
	open := make([]sessions, n)
	connect := func(db, token string) *pgx.Conn {
		conn, err := p.TryConnect(db, user, token)
		if err != nil {
			t.Errorf("%s: %v", db, err)
		}
		return conn
	}
	old := nextToken()
	all := func(when string) {
		stop, stopDirect := slowest(t, watch), slowest(t, aside)
		begin := time.Now()
		eachDatabase(dbs, func(i int, db string) {
			s := &open[i]
			if s.stale == nil {
				s.stale, s.nobody = connect(db, text(old)), connect(db, "")
				s.fresh = connect(db, text(old+1))
			}
			for _, sql := range []string{"UPDATE parts_1 SET bal = bal + 1", "UPDATE acct SET bal = bal + 1", "UPDATE seen SET bal = bal + 1", "SELECT bump()"} {
				for conn, want := range map[*pgx.Conn]string{s.stale: "ZF001", s.nobody: "ZF002", s.fresh: ""} {
					if got := run(conn, sql); got != want {
						t.Errorf("%s, %s: %s: %q, want %q", when, db, sql, got, want)
					}
				}
			}
		})
		t.Logf("%s: %v; another session's replies: %s; without the proxy: %s", when, time.Since(begin), stop(), stopDirect())
		mostConnections.Store(max(mostConnections.Load(), ofProxy("fenceproxy catalog")))
	}
	all("at the start")
	if t.Failed() {
		return
	}
	if got := p.Metric(t, "fenceproxy_plan_cache_bytes"); got <= plans {
		t.Errorf("plans: %v bytes, were %v", got, plans)
	}

	// DDL past the proxy in every database
	stop, stopDirect := slowest(t, watch), slowest(t, aside)
	eachDatabase(dbs, func(_ int, db string) {
		conn, err := pgx.Connect(context.Background(), c.DSN(db, "postgres"))
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if got := run(conn, "CREATE VIEW later AS SELECT * FROM acct; ALTER VIEW later OWNER TO teller"); got != "" {
			t.Errorf("%s: %s", db, got)
		}
	})
	begin := time.Now()
	for i := range open {
		eventually(t, "the view is fenced in "+dbs[i], func() bool { return run(open[i].nobody, "UPDATE later SET bal = bal WHERE id = 1") == "ZF002" })
	}
	t.Logf("DDL in all is known after %v; another session's replies: %s; without the proxy: %s", time.Since(begin), stop(), stopDirect())
	all("after DDL")
	t.Logf("goroutines %v, heap in use %.1f MiB, were %v and %.1f", p.Metric(t, "go_goroutines"), p.Metric(t, "go_memstats_heap_inuse_bytes")/(1<<20), goroutines, heap/(1<<20))
	if most := mostConnections.Load(); most > int64(kept)+8 {
		t.Errorf("%d connections for catalogs", most)
	}
	if got := strings.Count(p.Log(), "more databases than connections"); got != 1 {
		t.Errorf("%d lines in the log say that there are too many databases", got)
	}

	for i := range open {
		for _, conn := range []*pgx.Conn{open[i].stale, open[i].nobody, open[i].fresh} {
			conn.Close(context.Background())
		}
		open[i] = sessions{}
	}
	const renamed = "tenant_of_old"
	eachDatabase(dbs, func(i int, db string) { // PostgreSQL waits 5 s for others to leave
		conn, err := pgx.Connect(context.Background(), c.DSN("postgres", "postgres"))
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		sql := "DROP DATABASE " + db
		if i == 1 {
			sql = "ALTER DATABASE " + db + " RENAME TO " + renamed
		}
		if got := run(conn, sql); got != "" {
			t.Errorf("%s: %s", sql, got)
		}
	})
	if t.Failed() {
		return
	}
	eventually(t, "no connection is left", func() bool { return ofProxy("fenceproxy catalog")+ofProxy("fenceproxy control") == 0 })
	eventually(t, "goroutines end", func() bool { return p.Metric(t, "go_goroutines") <= goroutines+10 })
	eventually(t, "plans are given back", func() bool { return p.Metric(t, "fenceproxy_plan_cache_bytes") <= plans })
	// Databases of the same names, where other things lead to the fence.
	c.Exec(t, template, "ALTER TABLE parts_1 RENAME TO elsewhere; CREATE TABLE parts_1 (id int, bal int); ALTER TABLE parts_1 OWNER TO teller")
	must(t, direct, "CREATE DATABASE "+dbs[0]+" TEMPLATE "+template)
	again := p.Connect(t, dbs[0], user, "")
	want(t, again, "UPDATE parts_1 SET bal = 1", "")
	for _, sql := range []string{"UPDATE elsewhere SET bal = 1", "UPDATE seen SET bal = 1"} {
		want(t, again, sql, "ZF002")
	}
	moved := p.Connect(t, renamed, user, "")
	for _, sql := range []string{"UPDATE parts_1 SET bal = 1", "UPDATE later SET bal = 1"} {
		want(t, moved, sql, "ZF002")
	}
	moved.Close(context.Background())
	low := p.Connect(t, dbs[0], user, "1") // no mark was ever raised here
	must(t, low, "UPDATE acct SET bal = bal + 1")
	low.Close(context.Background())
	again.Close(context.Background())
}
