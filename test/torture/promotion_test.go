package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// A primary dies and its standby is promoted while holders take over from each other. With a synchronous standby nothing
// that was acknowledged is lost: no write, no mark. With an asynchronous one that lags behind both are, and this test must
// be able to see it: then the holder of before the lost takeover may write again, until the newest token is presented once
// more. Tokens of the lease table are refused on the new timeline, lost or not.
func TestPromotion(t *testing.T) {
	t.Run("synchronous", func(t *testing.T) {
		f := failover(t, true)
		if f.lostWrites+f.lostMarks+len(f.violations) > 0 {
			t.Errorf("%d acknowledged transactions lost, %d marks; %v", f.lostWrites, f.lostMarks, f.violations)
		}
	})
	t.Run("asynchronous", func(t *testing.T) {
		f := failover(t, false)
		if f.lostWrites == 0 || f.lostMarks == 0 {
			t.Errorf("%d acknowledged transactions lost, %d marks: this standby should have lost some of both", f.lostWrites, f.lostMarks)
		}
		if f.revived != "" {
			t.Errorf("the holder before a lost mark: SQLSTATE %q; the documentation says that it may write", f.revived)
		}
	})
}

// failed is what a failover has brought.
type failed struct {
	lostWrites, lostMarks int
	violations            []Violation
	revived               string // SQLSTATE of a write by the holder before a lost mark
}

func failover(t *testing.T, synchronous bool) (f failed) {
	began := time.Now()
	lap := func(what string) { t.Logf("%6.1f s %s", time.Since(began).Seconds(), what) }
	primary := pgtest.Start(t, pgtest.WithSetting("wal_level", "logical"), pgtest.WithSetting("max_prepared_transactions", "20"))
	db := primary.NewDatabase(t)
	primary.Exec(t, db, "CREATE ROLE "+appRole+" LOGIN; "+common)
	var flags []string
	parts := []part{}
	for i, s := range stages {
		primary.Exec(t, db, s.tables())
		flags = append(flags, "--fence", s.Fence+"="+s.Fence+".*")
		if s.Service == direct && i < 4 {
			parts = append(parts, part{i, s})
		}
	}
	flags = append(flags, "--fence", companion+"="+companion+".*", "--takeover-grace", grace.String())
	proxytest.Install(t, primary.DSN(db, "postgres"))
	standby := pgtest.Start(t, pgtest.WithBackupOf(primary.DSN("postgres", "postgres"), primary), pgtest.WithSetting("wal_level", "logical"),
		pgtest.WithSetting("max_prepared_transactions", "20"))
	if synchronous {
		primary.Exec(t, db, "ALTER SYSTEM SET synchronous_standby_names = '*'")
		primary.Exec(t, db, "SELECT pg_reload_conf()")
		until20s(t, "the standby is synchronous", func() bool {
			return number(t, primary, db, "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')") == 1
		})
	}
	lap("standby runs")
	locks, err := lockclient.Open(t.Context(), primary.DSN(db, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Lock(t.Context(), "lease", lockclient.WithTTL(time.Minute))
	if err != nil {
		t.Fatal(err)
	}

	sessions, control := openGate(t, primary.Addr()), openGate(t, primary.Addr())
	at := func(addr string) string { return strings.Replace(primary.DSN(db, "postgres"), primary.Addr(), addr, 1) }
	var proxies []*proxytest.Proxy
	for range 2 {
		proxies = append(proxies, proxytest.Start(t, at(sessions.addr()), append(flags, "--control", at(control.addr()))...))
	}

	lap("proxies run")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	crew := startCrew(ctx, proxies, db, parts)
	time.Sleep(2 * time.Second)
	if !synchronous { // it will not hear of the last half second
		standby.Exec(t, "postgres", "ALTER SYSTEM SET primary_conninfo = ''")
		standby.Exec(t, "postgres", "SELECT pg_reload_conf()")
		until20s(t, "replication has ended", func() bool {
			return number(t, standby, "postgres", "SELECT count(*) FROM pg_stat_wal_receiver") == 0
		})
		time.Sleep(500 * time.Millisecond)
	}
	lap("before the failover")
	primary.Kill()
	died := now()
	standby.Exec(t, "postgres", "SELECT pg_promote(true)")
	w := &world{t: t, server: standby, db: db}
	w.ledger = newLedger(w.violation)
	// A slot is made when all transactions of its beginning have ended; nobody else will end these.
	if err := w.onServer(func(ctx context.Context, c *pgx.Conn) error {
		_, err := w.rollbackPrepared(ctx, c, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	standby.Exec(t, db, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", slot))

	lap("promoted")
	// What has survived?
	before := crew.told()
	newest := map[string]position{}
	writes := 0
	there := map[string]bool{}
	for _, p := range parts {
		for _, tx := range column(t, standby, db, fill("SELECT tx FROM $s.log", p.Fence)) {
			there[fmt.Sprint(p.Fence, tx)] = true
		}
	}
	for _, e := range before {
		tok, err := parsePosition(e.Token)
		if err != nil || e.Outcome != Done || e.To > died {
			continue
		}
		switch {
		case e.Op == Raise && newest[e.Fence].below(tok):
			newest[e.Fence] = tok
		case e.Op == Write:
			writes++
			if !there[fmt.Sprint(e.Fence, e.Tx)] {
				f.lostWrites++
			}
		}
	}
	lost := map[string]position{}
	for fence, tok := range newest {
		p := w.ledger.fences[fence]
		p.mark = position{0, number(t, standby, db, "SELECT coalesce(max(token), 0) FROM fence.mark WHERE name = '"+fence+"'")}
		if p.mark.below(tok) {
			f.lostMarks++
			lost[fence] = p.mark
		}
	}
	t.Logf("before: %d writes and %d fences raised; lost: %d writes, %d marks", writes, len(newest), f.lostWrites, f.lostMarks)
	if writes < 20 || len(newest) < len(parts) {
		t.Errorf("too little has happened before the failover")
	}

	lap("compared")
	// Life goes on. To be seen by itself, what a lost mark lets pass must not meet the other holders, nor a proxy's memory.
	if !synchronous {
		end()
		crew.wait()
	}
	sessions.lead(standby.Addr())
	control.lead(standby.Addr())
	if got := attempt(proxies[0], db, "lease="+lease.Fence().Token.String(), "lease"); got != "ZF001" {
		t.Errorf("a token of the lease table, of the old timeline: SQLSTATE %q", got)
	}
	if !synchronous {
		for _, p := range proxies {
			p.Kill()
			if err := p.Run(); err != nil {
				t.Fatal(err)
			}
		}
		for fence, tok := range lost {
			f.revived = attempt(proxies[0], db, fence+"="+tok.String(), fence)
			// The remedy: whoever has the newest token presents it.
			if got := attempt(proxies[0], db, fence+"="+newest[fence].String(), fence); got != "" {
				t.Errorf("the newest holder: SQLSTATE %q", got)
			}
			if got := attempt(proxies[1], db, fence+"="+tok.String(), fence); got != "ZF001" {
				t.Errorf("the holder before, after the newest token was presented again: SQLSTATE %q", got)
			}
			break
		}
		return f
	}
	time.Sleep(2 * time.Second)
	end()
	crew.wait()
	lap("actors have ended")
	if err := w.calm(); err != nil {
		t.Fatal(err)
	}
	if err := w.judge(t.Context()); err != nil {
		t.Fatal(err)
	}
	lap("calm")
	w.reader.Close(t.Context())
	events := append(before, crew.told()...)
	after := 0
	for _, e := range events {
		if e.Op == Write && e.Outcome == Done && e.From > died {
			after++
		}
	}
	judgeAcknowledged(w.ledger, events)
	t.Logf("after: %d writes", after)
	if after < 20 {
		t.Errorf("too little has happened after the failover")
	}
	f.violations = w.violations
	return f
}

// attempt writes once under a token and returns the SQLSTATE.
func attempt(p *proxytest.Proxy, db, token, fence string) string {
	conn, err := p.TryConnect(db, appRole, token)
	if err == nil {
		defer conn.Close(context.Background())
		_, tok, _ := strings.Cut(token, "=")
		_, err = conn.Exec(context.Background(), fill("INSERT INTO $s.log VALUES (0, $1, 0)", fence), tok)
	}
	_, code := outcome(err)
	if err != nil && code == "" {
		return err.Error()
	}
	return code
}

// actors are workers in this process, whose tokens come from a counter that outlives every database.
type actors struct {
	mu   sync.Mutex
	out  bytes.Buffer
	work sync.WaitGroup
}

func (a *actors) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Write(p)
}

func startCrew(ctx context.Context, proxies []*proxytest.Proxy, db string, parts []part) *actors {
	a := &actors{}
	var mu sync.Mutex
	last := map[string]int64{}
	issue := func(fence string) int64 {
		mu.Lock()
		defer mu.Unlock()
		last[fence]++
		return last[fence]
	}
	for i := range 3 {
		w := &worker{out: json.NewEncoder(a), issue: issue}
		w.order = order{Schedule: Schedule{Seed: uint64(i), Tenure: 8, Rest: 60 * time.Millisecond, Stubborn: 0.3}, Worker: i, Parts: parts, LogOnly: true}
		for _, p := range proxies {
			w.Proxies = append(w.Proxies, p.DSN(db, appRole))
		}
		a.work.Go(func() { w.act(ctx) })
	}
	return a
}

func (a *actors) wait() { a.work.Wait() }

// told returns what was told since the last call.
func (a *actors) told() (events []Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for d := json.NewDecoder(&a.out); ; {
		var e Event
		if d.Decode(&e) != nil {
			a.out.Reset()
			return events
		}
		events = append(events, e)
	}
}

func number(t *testing.T, c *pgtest.Cluster, db, sql string) int64 { return column(t, c, db, sql)[0] }

func column(t *testing.T, c *pgtest.Cluster, db, sql string) []int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.SocketDSN(db, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return all
}

func until20s(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
