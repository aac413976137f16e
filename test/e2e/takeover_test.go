package e2e

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

const grace = 2 * time.Second

var graceFlag = []string{"--takeover-grace", grace.String()}

// arrival is a session that presents a token in the background.
type arrival struct {
	done chan struct{}
	conn *pgx.Conn
	err  error
	took time.Duration
}

func arrive(p *proxytest.Proxy, db string, token int64) *arrival {
	return arriveWith(p, db, text(token))
}

func arriveWith(p *proxytest.Proxy, db, token string) *arrival {
	a := &arrival{done: make(chan struct{})}
	began := time.Now()
	go func() {
		a.conn, a.err = p.TryConnect(db, user, token)
		a.took = time.Since(began)
		close(a.done)
	}()
	return a
}

// in waits for the session to be let in.
func (a *arrival) in(t *testing.T) *pgx.Conn {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(waitLimit):
		t.Fatal("the new holder was never let in")
	}
	if a.err != nil {
		t.Fatalf("the new holder was refused: %v", a.err)
	}
	t.Cleanup(func() { a.conn.Close(context.Background()) })
	return a.conn
}

func (a *arrival) pending() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

const raisesWaiting = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND NOT granted
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// raiseWaits polls until n raises stand in the queue of an advisory lock.
func raiseWaits(t *testing.T, direct *pgx.Conn, n int64) {
	t.Helper()
	eventually(t, "a raise waits in PostgreSQL", func() bool { return number(t, direct, raisesWaiting) >= n })
}

// I2: a transaction guarded under the old token finishes before the raise returns; everything later is refused.
func TestRaiseWaitsForGuardedTransactions(t *testing.T) {
	for _, isolation := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		t.Run(isolation, func(t *testing.T) {
			c, db, p := start(t)
			direct := c.Connect(t, db, "postgres")
			old := p.Connect(t, db, user, "33")
			must(t, old, "BEGIN ISOLATION LEVEL "+isolation)
			must(t, old, "UPDATE acct SET bal = 33 WHERE id = 1")
			next := arrive(p, db, 34)
			raiseWaits(t, direct, 1)
			if !next.pending() {
				t.Fatal("let in while the old holder's transaction was open")
			}
			must(t, old, "COMMIT")
			conn := next.in(t)
			if bal := number(t, conn, "SELECT bal FROM acct WHERE id = 1"); bal != 33 {
				t.Errorf("the new holder reads %d, not the old holder's last write", bal)
			}
			want(t, old, "UPDATE acct SET bal = 0", "ZF001")
			want(t, conn, "UPDATE acct SET bal = 34 WHERE id = 1", "")
		})
	}
}

// I2 for every form of the guard: whichever the proxy chooses, its lock holds the raise up until the transaction ends.
func TestRaiseWaitsForEveryFormOfGuard(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--fence", "jobs=jobs")
	direct := c.Connect(t, db, "postgres")
	forms := []struct{ name, metric, sql string }{
		{"one fence", "fast", "UPDATE acct SET bal = 33 WHERE id = 1"},
		{"several fences", "slow", "WITH w AS (UPDATE jobs SET state = 'x' RETURNING id) UPDATE acct SET bal = 33 FROM w WHERE w.id = acct.id"},
		{"all of the session's fences", "session", "SELECT bump()"},
	}
	for _, form := range forms {
		for _, extended := range []bool{false, true} {
			protocol := map[bool]string{false: "simple", true: "extended"}[extended]
			t.Run(form.name+" "+protocol, func(t *testing.T) {
				current := nextToken()
				tokens := func(n int64) string { return fmt.Sprintf("acct=%d,jobs=%d", n, n) }
				old := p.Connect(t, db, user, tokens(current))
				guards := p.Metric(t, "fenceproxy_guards_total", `form="`+form.metric+`"`)
				must(t, old, "BEGIN")
				if extended {
					if _, err := old.PgConn().ExecParams(context.Background(), form.sql, nil, nil, nil, nil).Close(); err != nil {
						t.Fatal(err)
					}
				} else {
					must(t, old, form.sql)
				}
				if n := p.Metric(t, "fenceproxy_guards_total", `form="`+form.metric+`"`) - guards; n != 1 {
					t.Errorf("%v guards of the form %s", n, form.metric)
				}
				next := arriveWith(p, db, fmt.Sprintf("acct=%d", nextToken()))
				raiseWaits(t, direct, 1)
				if !next.pending() {
					t.Fatal("let in while the old holder's transaction was open")
				}
				must(t, old, "COMMIT")
				next.in(t)
				want(t, old, form.sql, "ZF001")
			})
		}
	}
}

// Re-announcing the current token never waits: not behind the holder's own long batch, not behind a raise that waits.
func TestPresentingTheCurrentTokenNeverWaits(t *testing.T) {
	c, db, p := start(t)
	second := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
	batch := p.Connect(t, db, user, "34")
	must(t, batch, "BEGIN; UPDATE acct SET bal = 1")
	for name, proxy := range map[string]*proxytest.Proxy{"same proxy": p, "another proxy": second} {
		sibling := arrive(proxy, db, 34).in(t)
		want(t, sibling, "SELECT 1", "")
		// SET as well, and a guarded write beside the batch.
		must(t, sibling, "SET fence.token = '34'; UPDATE jobs SET state = 'x'; INSERT INTO acct VALUES (99, 0); DELETE FROM acct WHERE id = 99")
		t.Log(name, "passed")
	}
	must(t, batch, "COMMIT")
}

// A frozen holder is evicted after the grace, not before; the raise returns within grace + 1 s; nobody else is ended.
func TestFrozenHolderIsEvictedAfterTheGraceAndNobodyElse(t *testing.T) {
	c, db, p := start(t, graceFlag...)
	direct := c.Connect(t, db, "postgres")
	innocents := []*pgx.Conn{
		p.Connect(t, db, user, "33"), // same token, idle
		p.Connect(t, db, user, ""),
		p.Connect(t, db, user, "33"),
	}
	must(t, innocents[1], "BEGIN; UPDATE jobs SET state = 'mine'") // a transaction that is none of this fence's
	must(t, innocents[2], "BEGIN; SELECT count(*) FROM acct")      // has read, is not guarded

	frozen := p.Connect(t, db, user, "33")
	must(t, frozen, "BEGIN; UPDATE acct SET bal = 666 WHERE id = 1")
	next := arrive(p, db, 34)
	conn := next.in(t)
	if next.took < grace {
		t.Errorf("let in after %v, before the grace of %v had passed", next.took, grace)
	}
	if next.took > grace+time.Second {
		t.Errorf("let in after %v; want at most grace + 1s", next.took)
	}
	if sqlstate := run(frozen, "COMMIT"); sqlstate == "" {
		t.Error("the frozen holder could commit")
	}
	if bal := number(t, direct, "SELECT bal FROM acct WHERE id = 1"); bal != 0 {
		t.Errorf("bal = %d: the frozen holder's write landed", bal)
	}
	want(t, conn, "UPDATE acct SET bal = 34 WHERE id = 1", "")
	for i, innocent := range innocents {
		if sqlstate := run(innocent, "SELECT 1; COMMIT"); sqlstate != "" {
			t.Errorf("innocent session %d was ended: %s", i, sqlstate)
		}
	}
}

// A session-level lock on the fence's key, taken by somebody who holds no token, stops no takeover; nor does a raise
// that was begun and not committed.
func TestForeignLocksOnTheKeyStopNoTakeover(t *testing.T) {
	for name, sql := range map[string]string{
		"session-level lock":       "SELECT pg_advisory_lock(1178947139, (SELECT id FROM fence.mark WHERE name = 'acct'))",
		"shared session lock":      "SELECT pg_advisory_lock_shared(1178947139, (SELECT id FROM fence.mark WHERE name = 'acct'))",
		"transaction-level lock":   "BEGIN; SELECT pg_advisory_xact_lock(1178947139, (SELECT id FROM fence.mark WHERE name = 'acct'))",
		"frozen before its COMMIT": "BEGIN; SELECT * FROM fence.raise('acct', 0, 40, 'by hand', NULL)",
	} {
		t.Run(name, func(t *testing.T) {
			c, db, p := start(t, graceFlag...)
			p.Connect(t, db, user, "33")
			innocent := p.Connect(t, db, user, "33")
			foreign := c.Connect(t, db, "postgres")
			must(t, foreign, sql)
			next := arrive(p, db, 41)
			conn := next.in(t)
			if next.took > grace+time.Second {
				t.Errorf("let in after %v; want at most grace + 1s", next.took)
			}
			want(t, conn, "UPDATE acct SET bal = 41", "")
			want(t, innocent, "SELECT 1", "")
		})
	}
}

// Two proxies that raise at once: both are answered, the higher token is the mark, nobody is ended.
func TestTwoProxiesRaisingAtOnce(t *testing.T) {
	c, db, p := start(t)
	second := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
	old := p.Connect(t, db, user, "33")
	must(t, old, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 1")
	direct := c.Connect(t, db, "postgres")
	a, b := arrive(p, db, 34), arrive(second, db, 35)
	raiseWaits(t, direct, 2)
	must(t, old, "COMMIT")
	b.in(t)
	<-a.done
	if sqlstate := code(a.err); sqlstate != "" && sqlstate != "ZF001" {
		t.Errorf("the lower of two raises: %s; want let in, or ZF001", sqlstate)
	}
	if mark := number(t, direct, "SELECT token FROM fence.mark WHERE name = 'acct'"); mark != 35 {
		t.Errorf("mark = %d", mark)
	}
	want(t, b.conn, "UPDATE acct SET bal = 35 WHERE id = 1", "")
	if a.conn != nil {
		want(t, a.conn, "UPDATE acct SET bal = 34 WHERE id = 1", "ZF001")
		a.conn.Close(context.Background())
	}
	want(t, old, "SELECT 1", "")
}

// A proxy that is stopped in the middle of its raise does not keep another one from raising.
func TestStoppedProxyInTheMiddleOfItsRaise(t *testing.T) {
	c, db, p := start(t, graceFlag...)
	second := proxytest.Start(t, c.DSN(db, "postgres"), append([]string{"--fence", "acct=acct"}, graceFlag...)...)
	old := p.Connect(t, db, user, "33")
	must(t, old, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 1")
	direct := c.Connect(t, db, "postgres")
	arrive(second, db, 34)
	raiseWaits(t, direct, 1)
	second.Signal(syscall.SIGSTOP)
	defer second.Signal(syscall.SIGCONT)
	next := arrive(p, db, 35)
	conn := next.in(t)
	if next.took > grace+time.Second {
		t.Errorf("let in after %v; want at most grace + 1s", next.took)
	}
	want(t, conn, "UPDATE acct SET bal = 35 WHERE id = 1", "")
}

// A client whose connect timeout is shorter than the grace, and which tries again and again, gets in: the raise
// outlives the session that asked for it and its clock runs on.
func TestRetryingClientWithAShortTimeoutTakesOver(t *testing.T) {
	_, db, p := start(t, graceFlag...)
	frozen := p.Connect(t, db, user, "33")
	must(t, frozen, "BEGIN; UPDATE acct SET bal = 666 WHERE id = 1")
	began := time.Now()
	for {
		config, err := pgx.ParseConfig(p.DSN(db, user))
		if err != nil {
			t.Fatal(err)
		}
		config.RuntimeParams["fence.token"] = "34"
		ctx, cancel := context.WithTimeout(context.Background(), grace/8)
		conn, err := pgx.ConnectConfig(ctx, config)
		cancel()
		if err == nil {
			defer conn.Close(context.Background())
			want(t, conn, "UPDATE acct SET bal = 34 WHERE id = 1", "")
			break
		}
		if time.Since(began) > waitLimit {
			t.Fatalf("never taken over: %v", err)
		}
	}
	if took := time.Since(began); took > grace+time.Second {
		t.Errorf("taken over after %v; want at most grace + 1s", took)
	}
}

// What cannot be ended keeps the takeover waiting, safely: a prepared transaction until it is rolled back.
func TestPreparedTransactionKeepsTheTakeoverWaiting(t *testing.T) {
	c, db, p := start(t, "--takeover-grace", "100ms")
	direct := c.Connect(t, db, "postgres")
	old := p.Connect(t, db, user, "33")
	must(t, old, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 1; PREPARE TRANSACTION 'job_"+db+"'")
	next := arrive(p, db, 34)
	raiseWaits(t, direct, 1)
	eventually(t, "the takeover is reported as overdue", func() bool { return p.Metric(t, "fenceproxy_raise_overdue_total") > 0 })
	if !next.pending() {
		t.Fatal("let in beside a prepared transaction of the old holder")
	}
	must(t, direct, "ROLLBACK PREPARED 'job_"+db+"'")
	want(t, next.in(t), "UPDATE acct SET bal = 34 WHERE id = 1", "")
	if evicted := p.Metric(t, "fenceproxy_evictions_total"); evicted != 0 {
		t.Errorf("%v backends were ended", evicted)
	}
}

// COMMIT PREPARED publishes a write that was guarded when it was made: its lock has been held since, so no newer holder
// can have come between.
func TestCommitPreparedLandsBeforeTheRaise(t *testing.T) {
	c, db, p := start(t, "--takeover-grace", "100ms")
	direct := c.Connect(t, db, "postgres")
	old := p.Connect(t, db, user, "33")
	must(t, old, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 1; PREPARE TRANSACTION 'pay_"+db+"'")
	next := arrive(p, db, 34)
	raiseWaits(t, direct, 1)
	must(t, old, "COMMIT PREPARED 'pay_"+db+"'")
	if bal := number(t, next.in(t), "SELECT bal FROM acct WHERE id = 1"); bal != 33 {
		t.Errorf("the new holder reads %d", bal)
	}
}

// A backend stopped by SIGSTOP cannot be ended: the takeover waits, and goes on when the backend runs again.
func TestStoppedBackendKeepsTheTakeoverWaiting(t *testing.T) {
	c, db, p := start(t, "--takeover-grace", "100ms")
	direct := c.Connect(t, db, "postgres")
	old := p.Connect(t, db, user, "33")
	must(t, old, "BEGIN; UPDATE acct SET bal = 666 WHERE id = 1")
	pid := int(number(t, old, "SELECT pg_backend_pid()"))
	syscall.Kill(pid, syscall.SIGSTOP)
	next := arrive(p, db, 34)
	eventually(t, "the takeover is reported as overdue", func() bool { return p.Metric(t, "fenceproxy_raise_overdue_total") > 0 })
	if !next.pending() {
		t.Fatal("let in beside a stopped backend of the old holder")
	}
	syscall.Kill(pid, syscall.SIGCONT)
	next.in(t)
	if bal := number(t, direct, "SELECT bal FROM acct WHERE id = 1"); bal != 0 {
		t.Errorf("bal = %d: the stopped backend's write landed", bal)
	}
}

// SET of a higher token inside of the holder's own guarded transaction must not wait for itself.
func TestHigherTokenInsideOfTheOwnGuardedTransaction(t *testing.T) {
	_, db, p := start(t, graceFlag...)
	holder := p.Connect(t, db, user, "33")
	must(t, holder, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 1")
	began := time.Now()
	run(holder, "SET LOCAL fence.token = '34'")
	sqlstate := run(holder, "UPDATE acct SET bal = 34 WHERE id = 1")
	if sqlstate != "ZF006" && sqlstate != "25P02" {
		t.Errorf("a write under a token that nobody announced: %q, want ZF006", sqlstate)
	}
	must(t, holder, "ROLLBACK")
	if took := time.Since(began); took > grace {
		t.Errorf("it took %v", took)
	}
}

// Many sessions of one new holder that all come at once are one takeover.
func TestManySessionsOfOneHolderAreOneTakeover(t *testing.T) {
	c, db, p := start(t)
	old := p.Connect(t, db, user, "33")
	raises := p.Metric(t, "fenceproxy_raises_total")
	var all []*arrival
	for range 20 {
		all = append(all, arrive(p, db, 34))
	}
	var wg sync.WaitGroup
	for _, a := range all {
		conn := a.in(t)
		wg.Go(func() {
			if sqlstate := run(conn, "UPDATE acct SET bal = bal + 1 WHERE id = 1"); sqlstate != "" {
				t.Errorf("a session of the new holder: %s", sqlstate)
			}
		})
	}
	wg.Wait()
	if bal := number(t, c.Connect(t, db, "postgres"), "SELECT bal FROM acct WHERE id = 1"); bal != 20 {
		t.Errorf("bal = %d", bal)
	}
	want(t, old, "UPDATE acct SET bal = 0", "ZF001")
	if n := p.Metric(t, "fenceproxy_raises_total") - raises; n != 1 {
		t.Errorf("%v raises were counted", n)
	}
}

// Fences whose names collide under hashtext are still two: a takeover of one ends no holder of the other.
func TestCollidingNamesAreTwoFences(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	const one, two = "jobs/144001", "jobs/199320"
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", one+"=acct", "--fence", two+"=jobs", "--takeover-grace", "100ms")
	innocent := p.Connect(t, db, user, two+"=5")
	must(t, innocent, "BEGIN; UPDATE jobs SET state = 'mine'")
	frozen := p.Connect(t, db, user, one+"=5")
	must(t, frozen, "BEGIN; UPDATE acct SET bal = 666")
	conn, err := p.TryConnect(db, user, one+"=6")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	want(t, innocent, "COMMIT", "")
	if sqlstate := run(frozen, "COMMIT"); sqlstate == "" {
		t.Error("the frozen holder could commit")
	}
}
