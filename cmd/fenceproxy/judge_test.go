package main

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// judgesOf are judges of two sessions in a database, who came before and after a reload that has changed no fences.
func judgesOf(t *testing.T, db, dsn string) (before, after *judge) {
	t.Helper()
	w, err := catalog.NewWatcher(catalog.WatcherConfig{DSN: dsn, Every: time.Hour,
		Fences: []catalog.Fence{{Name: "work", Tables: []catalog.Pattern{{Table: "work"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	cfg := &config.Config{Fences: []config.Fence{{Name: "work", Tables: []string{"work"}}}}
	base, err := rewrite.New(cfg.Rewrite())
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{log: zap.NewNop()}
	var judges []*judge
	for range 2 {
		j := p.newCatalogs(w, cfg, base).Session(db).(*judge)
		j.Enter()
		t.Cleanup(j.Leave)
		j.Settle(t.Context())
		judges = append(judges, j)
	}
	return judges[0], judges[1]
}

// I1: the look that DDL waits for is lost with the connection; then it waits for the next one. If that comes too late, the log
// says what the DDL was answered without.
func TestI1DDLWaitsForTheLookBehindALostOne(t *testing.T) {
	for _, late := range []bool{false, true} {
		c, db, dsn := installed(t)
		c.Exec(t, db, "CREATE TABLE work (id int)")
		j, _ := judgesOf(t, db, dsn)
		core, log := observer.New(zap.WarnLevel)
		j.of.log = zap.New(core)
		lock, direct := c.Connect(t, db, "postgres"), c.Connect(t, db, "postgres")
		exec := func(sql string) {
			t.Helper()
			if _, err := lock.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		exec("BEGIN; LOCK TABLE pg_policy IN ACCESS EXCLUSIVE MODE") // no look ends
		begin := time.Now()
		j.Changed(rewrite.CatalogNames, false)
		settled := make(chan struct{})
		go func() {
			defer close(settled)
			j.Settle(t.Context())
		}()
		for last, looks := 0, 0; looks < 2; time.Sleep(time.Millisecond) {
			var pid int
			err := direct.QueryRow(t.Context(), `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
				WHERE application_name = 'fenceproxy catalog' AND datname = current_database() AND wait_event_type = 'Lock' AND pid <> $1`, last).Scan(&pid)
			if err != nil {
				t.Fatal(err)
			}
			if time.Since(begin) > settleTime {
				t.Skip("the machine is too slow")
			}
			if pid == 0 {
				continue
			}
			if last, looks = pid, looks+1; looks == 1 {
				if _, err := direct.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
					t.Fatal(err)
				}
			}
		}
		select {
		case <-settled:
			if time.Since(begin) < settleTime {
				t.Error("DDL was answered without a look")
			}
		default:
		}
		if late {
			<-settled
			if n := log.FilterMessageSnippet("DDL is answered before the catalog could be read").Len(); n != 1 {
				t.Errorf("said %d times", n)
			}
		}
		exec("ROLLBACK")
		if <-settled; !late && !j.Settled() {
			t.Error("DDL was answered before the look")
		}
	}
}

// I1: DDL is answered when sessions under another configuration know of it too: those from before a reload, or after it.
func TestI1DDLWaitsForSessionsUnderAnotherConfiguration(t *testing.T) {
	c, db, dsn := installed(t)
	c.Exec(t, db, "CREATE TABLE work (id int)")
	j, other := judgesOf(t, db, dsn)
	d := other.in.Load()
	d.making.Lock()
	c.Exec(t, db, "CREATE VIEW way AS SELECT * FROM work")
	j.Changed(rewrite.CatalogNames, false)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		looked, _ := j.in.Load().watched.Looked(j.want.Load())
		if j.in.Load().make(); looked {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no look")
		}
	}
	if j.Settled() {
		t.Error("DDL was answered before the others know of it")
	}
	go d.making.Unlock()
	j.Settle(t.Context())
	if !j.Settled() || d.made.Load().from != d.watched.Snapshot() {
		t.Error("the others do not know of it")
	}
}
