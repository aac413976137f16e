package sidecar

import (
	"context"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func (p *place) lease() *place {
	p.backend = p.c.DSN(p.db, "postgres") + "&ttl=" + ttl.String()
	return p
}

func draining(t *testing.T, side *proxytest.Proxy) {
	t.Helper()
	side.Signal(syscall.SIGTERM)
	poll(t, "draining", func() bool {
		code, body, err := side.Get("/readyz")
		return err == nil && code == 503 && strings.Contains(body, "draining")
	})
}

func ended(t *testing.T, side *proxytest.Proxy, within time.Duration) {
	t.Helper()
	select {
	case <-side.Done():
	case <-time.After(within):
		t.Fatalf("has not ended within %v", within)
	}
}

// signalHandsOver sends first a signal more; second holds the lock within a second.
func signalHandsOver(t *testing.T, first, second *proxytest.Proxy) {
	t.Helper()
	began := time.Now()
	first.Signal(syscall.SIGTERM)
	waitHolding(t, second)
	if took := time.Since(began); took > time.Second {
		t.Errorf("handed over after %v", took)
	}
}

// An instance that is about to end does not take the lock: not the one that waits for it, not the one that loses it.
// Mutants: drain does not call StandDown; stand waits under h.ctx alone.
func TestDrainingTakesNoLock(t *testing.T) {
	p := newPlace(t).lease()
	first := p.sidecar()
	waitHolding(t, first)
	waiting := p.sidecar("--drain-delay", "10s")
	poll(t, "stands in the queue", func() bool { return holder(t, waiting).Token != "" })
	draining(t, waiting)
	third := p.sidecar("--drain-delay", "10s")
	first.Kill()
	waitHolding(t, third)
	if holder(t, waiting).Holding {
		t.Error("held by an instance that is draining")
	}
	// Lost in the middle of a drain.
	conn := connect(t, third, p.db)
	before := holder(t, third).Token
	draining(t, third)
	if s := holder(t, third); !s.Holding || s.Token != before {
		t.Fatalf("given up before the drain delay is over: %+v", s)
	}
	if err := pay(conn); err != nil {
		t.Errorf("in the drain delay: %v", err)
	}
	proxytest.MustCommand(t, "fence", "bump-epoch", "acct", "--reason", "test", "--yes", "--dsn", p.c.DSN(p.db, "postgres"))
	if err := pay(conn); err == nil {
		t.Error("written under a token that was raised over")
	}
	poll(t, "lost", func() bool { return !holder(t, third).Holding })
	fourth := p.sidecar()
	waitHolding(t, fourth)
	if holder(t, third).Holding {
		t.Error("held by an instance that is draining")
	}
	if err := pay(connect(t, fourth, p.db)); err != nil {
		t.Error(err)
	}
}

// The second SIGTERM ends a transaction, and the next holder does not wait for anything.
func TestSecondSignalReleases(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		first := p.sidecar()
		waitHolding(t, first)
		second := p.sidecar()
		conn := connect(t, first, p.db)
		tx, err := conn.Begin(ctx)
		if err == nil {
			_, err = tx.Exec(ctx, "UPDATE acct SET bal = -1000 WHERE id = 1")
		}
		if err != nil {
			t.Fatal(err)
		}
		draining(t, first)
		signalHandsOver(t, first, second)
		if err := tx.Commit(ctx); err == nil {
			t.Error("committed after the second signal")
		}
		ended(t, first, patience)
		if err := pay(connect(t, second, p.db)); err != nil {
			t.Error(err)
		}
	})
}

// A second SIGTERM within shutdown.delay, while sessions still run: the lock does not wait for the last words to them.
func TestSecondSignalInTheDelay(t *testing.T) {
	p := newPlace(t).lease()
	first := p.sidecar("--drain-delay", "1m")
	waitHolding(t, first)
	second := p.sidecar()
	for range 3 {
		connect(t, first, p.db)
	}
	draining(t, first)
	signalHandsOver(t, first, second)
	ended(t, first, patience)
}

// Clients that wait are told of the end, and nobody waits for them.
func TestSignalWhileClientsWait(t *testing.T) {
	p := newPlace(t).lease()
	first := p.sidecar()
	waitHolding(t, first)
	second := p.sidecar("--max-connections", "3")
	told := make(chan error, 3)
	for range cap(told) {
		go func() {
			_, err := enter(second, p.db)
			told <- err
		}()
	}
	poll(t, "clients wait", func() bool { return full(second, p.db) })
	second.Signal(syscall.SIGTERM)
	ended(t, second, 2*time.Second)
	for range cap(told) {
		if err := <-told; code(err) != "57P03" || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("told %v", err)
		}
	}
}

// A reload, with clients that wait and clients that write.
func TestReload(t *testing.T) {
	p := newPlace(t).lease()
	first := p.sidecar()
	waitHolding(t, first)
	second := p.sidecar("--max-connections", "1")
	conn := connect(t, first, p.db)
	before := holder(t, first).Token
	wrote := make(chan error, 1)
	go func() {
		c, err := enter(second, p.db)
		if err == nil {
			defer c.Close(ctx)
			err = pay(c)
		}
		wrote <- err
	}()
	poll(t, "a client waits", func() bool { return full(second, p.db) })
	for _, side := range []*proxytest.Proxy{first, second} {
		side.Signal(syscall.SIGHUP)
		poll(t, "reloaded", func() bool { return strings.Contains(side.Log(), "reload") })
	}
	if err := pay(conn); err != nil {
		t.Errorf("after a reload: %v", err)
	}
	if s := holder(t, first); !s.Holding || s.Token != before {
		t.Errorf("after a reload: %+v, was %s", s, before)
	}
	select {
	case err := <-wrote:
		t.Fatalf("the client that waited: %v", err)
	default:
	}
	first.Kill()
	if err := <-wrote; err != nil {
		t.Errorf("the client that waited: %v", err)
	}
}

// A cancel request waits for no lock, reaches the statement while the lock is held, and nobody later.
func TestCancel(t *testing.T) {
	p := newPlace(t).lease()
	first := p.sidecar()
	waitHolding(t, first)
	conn := connect(t, first, p.db)
	asleep := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "SELECT pg_sleep(60)")
		asleep <- err
	}()
	direct := p.c.Connect(t, p.db, "postgres")
	poll(t, "statement runs", func() bool {
		var n int
		return direct.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60%' AND pid <> pg_backend_pid()").Scan(&n) == nil && n == 1
	})
	if err := conn.PgConn().CancelRequest(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-asleep; code(err) != "57014" {
		t.Errorf("cancelled: %v", err)
	}
	first.Signal(syscall.SIGSTOP)
	second := p.sidecar()
	waitHolding(t, second)
	first.Signal(syscall.SIGCONT)
	poll(t, "not held", func() bool { return !holder(t, first).Holding })
	limit, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := conn.PgConn().CancelRequest(limit); err != nil && limit.Err() != nil {
		t.Errorf("a cancel request waits for the lock: %v", err)
	}
}

// full reports whether as many clients wait as may.
func full(side *proxytest.Proxy, db string) bool {
	limit, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := pgx.Connect(limit, side.DSN(db, "postgres"))
	return code(err) == "53300"
}

// enter connects when there is room: full takes some.
func enter(side *proxytest.Proxy, db string) (conn *pgx.Conn, err error) {
	for conn, err = pgx.Connect(ctx, side.DSN(db, "postgres")); code(err) == "53300"; {
		conn, err = pgx.Connect(ctx, side.DSN(db, "postgres"))
	}
	return conn, err
}

// Clients that wait are sessions to the limits: those over them are told so, those that give up make room.
func TestWaitingClientsAreBounded(t *testing.T) {
	const bound = 200
	p := newPlace(t).lease()
	first := p.sidecar()
	waitHolding(t, first)
	second := p.sidecar("--max-connections", "200")
	cfg, err := pgx.ParseConfig(second.DSN(p.db, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	packet := []byte("\x00\x00\x00\x00\x00\x03\x00\x00user\x00postgres\x00database\x00" + p.db + "\x00\x00")
	packet[3] = byte(len(packet))
	wait := func() net.Conn {
		c, err := net.Dial("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
		if err == nil {
			_, err = c.Write(packet)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var clients []net.Conn
	for range bound {
		clients = append(clients, wait())
	}
	poll(t, "full", func() bool {
		if full(second, p.db) {
			return true
		}
		clients = append(clients, wait()) // the one who asked had a place that one of them was refused then
		return false
	})
	for _, c := range clients {
		c.Close()
	}
	poll(t, "room again", func() bool { return !full(second, p.db) })
	conn := make(chan error, 1)
	go func() {
		c, err := pgx.Connect(ctx, second.DSN(p.db, "postgres"))
		if err == nil {
			defer c.Close(ctx)
			err = pay(c)
		}
		conn <- err
	}()
	first.Kill()
	if err := <-conn; err != nil {
		t.Error(err)
	}
}
