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

// raiseWaits polls until n raises stand in the queue of an advisory lock. None of those who asked may be let in instead.
func raiseWaits(t *testing.T, direct *pgx.Conn, n int64, asked ...*arrival) {
	t.Helper()
	eventually(t, "a raise waits in PostgreSQL", func() bool {
		for _, a := range asked {
			if !a.pending() {
				t.Fatal("let in while the old holder's transaction was open")
			}
		}
		return number(t, direct, raisesWaiting) >= n
	})
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
			raiseWaits(t, direct, 1, next)
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
				raiseWaits(t, direct, 1, next)
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

// Two proxies that raise at once: both are answered, the higher token is the mark, nobody is ended.
func TestTwoProxiesRaisingAtOnce(t *testing.T) {
	c, db, p := start(t)
	second := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
	old := p.Connect(t, db, user, "33")
	must(t, old, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 1")
	direct := c.Connect(t, db, "postgres")
	a, b := arrive(p, db, 34), arrive(second, db, 35)
	raiseWaits(t, direct, 2, a, b)
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
	raiseWaits(t, direct, 1, arrive(second, db, 34))
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

// A session that holds a row lock and presents a higher token: waiting for the old holder, who waits for the row, would be
// a deadlock that PostgreSQL cannot see. The SET passes; the next guard says what to do.
func TestPresentingATokenBehindARowLockDoesNotDeadlock(t *testing.T) {
	c, db, p := start(t, "--takeover-grace", "10s")
	direct := c.Connect(t, db, "postgres")
	old, next := p.Connect(t, db, user, "33"), p.Connect(t, db, user, "")
	must(t, next, "BEGIN; SELECT * FROM acct WHERE id = 1 FOR UPDATE")
	must(t, old, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 2")
	waited := make(chan string, 1)
	go func() { waited <- run(old, "UPDATE acct SET bal = 33 WHERE id = 1; COMMIT") }()
	eventually(t, "the old holder waits for the row", func() bool {
		return number(t, direct, "SELECT count(*) FROM pg_locks WHERE locktype IN ('transactionid', 'tuple') AND NOT granted") > 0
	})
	began := time.Now()
	want(t, next, "SET LOCAL fence.token = '34'", "")
	want(t, next, "UPDATE acct SET bal = 34 WHERE id = 1", "ZF006")
	must(t, next, "ROLLBACK")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if got := <-waited; got != "" {
		t.Errorf("the old holder: %s", got)
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
