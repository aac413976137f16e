package e2e

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

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

// What cannot be ended keeps the takeover waiting, safely: a prepared transaction until it is rolled back.
func TestPreparedTransactionKeepsTheTakeoverWaiting(t *testing.T) {
	c, db, p := start(t, "--takeover-grace", "100ms")
	direct := c.Connect(t, db, "postgres")
	old := p.Connect(t, db, user, "33")
	must(t, old, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 1; PREPARE TRANSACTION 'job_"+db+"'")
	next := arrive(p, db, 34)
	raiseWaits(t, direct, 1, next)
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
	raiseWaits(t, direct, 1, next)
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
