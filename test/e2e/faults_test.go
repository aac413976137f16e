package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// I3: kill -9 of PostgreSQL right after a raise was acknowledged loses neither the mark nor lets the old holder back in,
// though the database runs with synchronous_commit off and a WAL writer that sleeps.
func TestRaiseSurvivesKillOfPostgreSQL(t *testing.T) {
	c := pgtest.Start(t, pgtest.WithSetting("synchronous_commit", "off"), pgtest.WithSetting("wal_writer_delay", "10s"))
	db := fenced(t, c)
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
	c.Exec(t, db, "CHECKPOINT")
	for round := int64(1); round <= 3; round++ {
		old, next := 10*round, 10*round+1
		p.Connect(t, db, user, text(old))
		holder, err := p.TryConnect(db, user, text(next))
		if err != nil {
			t.Fatal(err)
		}
		c.Kill()
		c.Restart(t)
		if run(holder, "SELECT 1") == "" {
			t.Fatal("a session outlived its server")
		}
		if mark := number(t, c.Connect(t, db, "postgres"), "SELECT token FROM fence.mark WHERE name = 'acct'"); mark != next {
			t.Fatalf("mark = %d after the crash; %d had been acknowledged", mark, next)
		}
		eventually(t, "the proxy is ready again", func() bool { status, _, _ := p.Get("/readyz"); return status == 200 })
		if _, err := p.TryConnect(db, user, text(old)); code(err) != "ZF001" {
			t.Fatalf("the old holder after the crash: %v, want ZF001", err)
		}
		fresh := p.Connect(t, db, user, text(next))
		want(t, fresh, "UPDATE acct SET bal = 1 WHERE id = 1", "")
	}
}

// kill -9 of the proxy between announce and write: what it forgot, the database knows.
func TestStaleTokenIsRefusedByAProxyWithoutMemory(t *testing.T) {
	_, db, p := start(t)
	old := p.Connect(t, db, user, "33")
	must(t, old, "UPDATE acct SET bal = 33 WHERE id = 1")
	p.Connect(t, db, user, "34")
	p.Kill()
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	if run(old, "UPDATE acct SET bal = 0") == "" {
		t.Fatal("a session outlived its proxy")
	}
	if _, err := p.TryConnect(db, user, "33"); code(err) != "ZF001" {
		t.Errorf("the old holder at connect: %v, want ZF001", err)
	}
	late := p.Connect(t, db, user, "")
	want(t, late, "SET fence.token = '33'", "ZF001")
	want(t, p.Connect(t, db, user, "34"), "UPDATE acct SET bal = 34 WHERE id = 1", "")
}

// kill -9 of the proxy in the middle of a guarded transaction takes the transaction back and holds up nobody.
func TestKilledProxyLeavesNoGuardBehind(t *testing.T) {
	c, db, p := start(t)
	old := p.Connect(t, db, user, "33")
	must(t, old, "BEGIN; UPDATE acct SET bal = 666 WHERE id = 1")
	p.Kill()
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	next := arrive(p, db, 34).in(t)
	want(t, next, "UPDATE acct SET bal = bal + 1 WHERE id = 1", "")
	if bal := number(t, c.Connect(t, db, "postgres"), "SELECT bal FROM acct WHERE id = 1"); bal != 1 {
		t.Errorf("bal = %d", bal)
	}
}

// A second proxy on the same database knows nothing of the first one's raises and refuses all the same.
func TestSecondProxyOnTheSameDatabase(t *testing.T) {
	c, db, p := start(t)
	second := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
	old := second.Connect(t, db, user, "33")
	must(t, old, "UPDATE acct SET bal = 33 WHERE id = 1")
	p.Connect(t, db, user, "34")
	// It remembers that 33 was acknowledged, so a new session may still come in with it; a write is another matter.
	again, err := second.TryConnect(db, user, "33")
	if err == nil {
		want(t, again, "UPDATE acct SET bal = 0", "ZF001")
		again.Close(context.Background())
	} else if code(err) != "ZF001" {
		t.Errorf("at connect: %v, want ZF001", err)
	}
	want(t, old, "UPDATE acct SET bal = 0", "ZF001")
}

// A token of another database's mark is nothing here: marks, locks and the proxy's memory are per database.
func TestMarksArePerDatabase(t *testing.T) {
	c, one, p := start(t)
	two := fenced(t, c)
	p.Connect(t, one, user, "50")
	conn := p.Connect(t, two, user, "7")
	want(t, conn, "UPDATE acct SET bal = 7", "")
	if mark := number(t, c.Connect(t, two, "postgres"), "SELECT token FROM fence.mark"); mark != 7 {
		t.Errorf("mark = %d", mark)
	}
	stale, err := p.TryConnect(one, user, "7")
	if code(err) != "ZF001" {
		t.Errorf("7 in the database whose mark is 50: %v", err)
	}
	if stale != nil {
		stale.Close(context.Background())
	}
}

// A control DSN that leads to another server must not vouch for this one.
func TestControlConnectionToAnotherServerIsNoticed(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	other := pgtest.Start(t, pgtest.WithOwnIdentity())
	other.Exec(t, "postgres", "CREATE ROLE teller LOGIN")
	other.Exec(t, "postgres", "CREATE DATABASE "+db)
	proxytest.Install(t, other.DSN(db, "postgres"))
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--control", other.DSN(db, "postgres"), "--fence", "acct=acct")
	conn, err := p.TryConnect(db, user, "33")
	if err == nil {
		defer conn.Close(context.Background())
		t.Fatal("a token was announced on another server and taken for announced here")
	}
	if code(err) != "ZF005" {
		t.Errorf("%v, want ZF005", err)
	}
}

// A token that comes with ALTER ROLE or ALTER DATABASE hands a reconnecting zombie the newest one: refused by default.
func TestTokenFromAlterRoleIsRefused(t *testing.T) {
	c, db, p := start(t)
	c.Exec(t, "postgres", fmt.Sprintf("ALTER DATABASE %s SET fence.token = '33'", db))
	conn, err := p.TryConnect(db, user, "")
	if err == nil {
		defer conn.Close(context.Background())
		if got := run(conn, "UPDATE acct SET bal = 33"); got == "" {
			t.Error("a write passed under a token that the session never presented")
		}
	}
	own := p.Connect(t, db, user, "34")
	want(t, own, "UPDATE acct SET bal = 34", "")
}
