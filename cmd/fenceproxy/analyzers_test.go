package main

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/dbcheck"
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

func catalogsOf(t *testing.T, c *pgtest.Cluster, cfg *config.Config) *catalogs {
	t.Helper()
	base, err := rewrite.New(cfg.Rewrite())
	if err != nil {
		t.Fatal(err)
	}
	w, err := catalog.NewWatcher(catalog.WatcherConfig{DSN: c.DSN("postgres", "postgres"), Fences: dbcheck.Fences(cfg.Fences), Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return (&proxy{log: zap.NewNop()}).newCatalogs(w, cfg, base)
}

func enter(t *testing.T, c *catalogs, db string) *judge {
	j := c.Session(db).(*judge)
	j.Enter()
	j.Settle(context.Background())
	if !j.Settled() {
		t.Fatalf("%s: not settled", db)
	}
	return j
}

// Databases of which the catalogs tell the same share an analyzer; it is given back with the last of them. With row tokens
// each has its own, since columns are asked for.
func TestCatalogAnalyzersAreShared(t *testing.T) {
	c := pgtest.Shared(t)
	create := []string{"CREATE VIEW a AS SELECT * FROM acct; CREATE VIEW b AS SELECT * FROM acct", "CREATE VIEW b AS SELECT * FROM acct; CREATE VIEW a AS SELECT * FROM acct", "CREATE VIEW c AS SELECT * FROM acct", ""}
	var dbs []string
	for _, sql := range create {
		db := c.NewDatabase(t)
		c.Exec(t, db, "CREATE TABLE acct (id int, tok bigint NOT NULL DEFAULT 0);"+sql)
		dbs = append(dbs, db)
	}
	var left []func()
	for _, rows := range []string{"", "tok"} {
		cfg := &config.Config{Fences: []config.Fence{{Name: "acct", Tables: []string{"acct"}, RowToken: rows}}}
		cs := catalogsOf(t, c, cfg)
		var in []*judge
		for _, db := range dbs {
			in = append(in, enter(t, cs, db))
		}
		second := enter(t, cs, dbs[0])
		a := func(i int) *rewrite.Analyzer { return in[i].Analyzer() }
		if second.Analyzer() != a(0) || a(0) == a(2) || (a(0) == a(1)) != (rows == "") || (a(3) == cs.base) != (rows == "") {
			t.Errorf("row token %q: %p %p %p %p, base %p", rows, a(0), a(1), a(2), a(3), cs.base)
		}
		if want := map[string]int{"": 2, "tok": 4}[rows]; len(cs.analyzers.all) != want {
			t.Errorf("row token %q: %d analyzers, want %d", rows, len(cs.analyzers.all), want)
		}
		a(0).Analyze(new(rewrite.Scratch), []byte("UPDATE a SET id = 1"), rewrite.Settings{})
		misses := cs.plans().Misses

		// DDL in one of those that share
		c.Exec(t, dbs[1], "CREATE VIEW more AS SELECT * FROM acct")
		before, shared := a(1), a(0)
		in[1].Changed(rewrite.CatalogNames, false)
		poll(t, "another analyzer", func() bool { return a(1) != before })
		if a(0) != shared {
			t.Error("another database's analyzer has changed")
		}
		c.Exec(t, dbs[1], "DROP VIEW more")

		second.Leave()
		for _, j := range in {
			j.Leave()
		}
		left = append(left, func() {
			poll(t, "all is given back", func() bool {
				cs.mu.Lock()
				defer cs.mu.Unlock()
				return len(cs.databases)+len(cs.analyzers.all)+len(cs.analyzers.byKey) == 0
			})
			if got := cs.plans(); got.Misses != misses || got.Bytes != 0 {
				t.Errorf("counters: %+v, misses were %d", got, misses)
			}
		})
	}
	for _, check := range left {
		check()
	}
}

// Sessions share a goroutine, so none of them makes an analyzer: it is there when it is made.
func TestCatalogIsNotReadBySessions(t *testing.T) {
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	c.Exec(t, db, "CREATE TABLE acct (id int)")
	cs := catalogsOf(t, c, &config.Config{Fences: []config.Fence{{Name: "acct", Tables: []string{"acct"}}}})
	j := enter(t, cs, db)
	d := j.in.Load()
	d.making.Lock() // as if it took long
	changed := d.watched.Changed()
	c.Exec(t, db, "CREATE VIEW a AS SELECT * FROM acct")
	j.Changed(rewrite.CatalogNames, false)
	<-changed
	asked := make(chan *rewrite.Analyzer, 1)
	go func() {
		a := j.Analyzer()
		if j.Settled() {
			a = nil
		}
		asked <- a
	}()
	select {
	case a := <-asked:
		if a != cs.base {
			t.Error("settled before the analyzer is there")
		}
	case <-time.After(10 * time.Second):
		t.Error("a session waits for the analyzer")
	}
	d.making.Unlock()
	poll(t, "the analyzer", func() bool { return j.Settled() && j.Analyzer() != cs.base })
}

func poll(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
