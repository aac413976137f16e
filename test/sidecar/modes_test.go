package sidecar

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// waiting is what a client sees that is not answered: its own timeout.
const waiting = "waiting"

// seen is the SQLSTATE of an error, "" for none.
func seen(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return waiting
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err != nil && strings.Contains(err.Error(), "conn closed") {
		return "closed"
	}
	return code(err)
}

// mode is what clients of a sidecar see, by --when-not-held.
type mode struct {
	name    string
	connect string // without the lock
	read    string
	write   string
	handed  string // what a session of before sees when the sidecar takes the lock
}

var modes = []mode{
	{"wait", waiting, waiting, waiting, ""},
	{"refuse", "57P03", "57P03", "57P03", ""},
	{"readonly", "", "", "ZF002", "57P01"},
}

// A driver that connects at its start and never again, and a pool: before the sidecar takes the lock, when it does, and
// when it has lost it. Mutants: Enter does not wait; lost leaves read-only sessions to the former context.
func TestWhenNotHeld(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			p := newPlace(t)
			p.backend = p.c.DSN(p.db, "postgres") + "&ttl=" + ttl.String()
			first := p.sidecar()
			waitHolding(t, first)
			second := p.sidecar("--when-not-held", m.name)
			pool := newPool(t, second, p.db)
			m.without(t, pool)

			type connected struct {
				*pgx.Conn
				err error
			}
			once := make(chan connected, 1)
			go func() {
				conn, err := pgx.Connect(ctx, second.DSN(p.db, "postgres"))
				once <- connected{conn, err}
			}()
			var conn connected
			if m.connect == waiting {
				select {
				case conn = <-once:
					t.Fatalf("connected without the lock: %v", conn.err)
				case <-time.After(300 * time.Millisecond):
				}
			} else if conn = <-once; seen(conn.err) != m.connect {
				t.Fatalf("connect: %v", conn.err)
			}

			first.Kill()
			waitHolding(t, second)
			if m.connect == waiting {
				if conn = <-once; conn.err != nil {
					t.Fatalf("the client that waited: %v", conn.err)
				}
			}
			if m.handed != "" {
				if got := ending(conn.Conn); got != m.handed {
					t.Errorf("a session of before ended with %q, want %q", got, m.handed)
				}
			}
			if conn.Conn == nil || m.handed != "" {
				conn.Conn = connect(t, second, p.db)
			}
			defer conn.Close(ctx)
			if err := pay(conn.Conn); err != nil {
				t.Errorf("the holder's client: %v", err)
			}
			poll(t, "the pool writes", func() bool { return poolPays(pool) == "" })

			if err := first.Run(); err != nil {
				t.Fatal(err)
			}
			second.Signal(syscall.SIGSTOP)
			waitHolding(t, first)
			second.Signal(syscall.SIGCONT)
			if got := ending(conn.Conn); got != "ZF001" {
				t.Errorf("at the loss a session ended with %q", got)
			}
			if got := seen(pay(conn.Conn)); got != "closed" {
				t.Errorf("a driver that does not connect again: %q", got)
			}
			poll(t, "the pool's sessions of the tenure are gone", func() bool { return poolPays(pool) == m.write })
			m.without(t, pool)
		})
	}
}

// without checks what a pool sees while another instance has the lock.
func (m mode) without(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	limit, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	var n int
	if got := seen(pool.QueryRow(limit, "SELECT bal FROM acct").Scan(&n)); got != m.read {
		t.Errorf("pool, read: %q, want %q", got, m.read)
	}
	if got := poolPays(pool); got != m.write {
		t.Errorf("pool, write: %q, want %q", got, m.write)
	}
}

func newPool(t *testing.T, p *proxytest.Proxy, db string) *pgxpool.Pool {
	pool, err := pgxpool.New(ctx, p.DSN(db, "postgres", "pool_max_conns", "4"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func poolPays(pool *pgxpool.Pool) string {
	limit, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := pool.Exec(limit, "UPDATE acct SET bal = bal + 1 WHERE id = 1")
	return seen(err)
}

// ending waits for a session to be ended and says with what.
func ending(conn *pgx.Conn) string {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := conn.WaitForNotification(limit)
	return seen(err)
}

// A client waits for hold.wait, and is told then.
func TestWaitIsBounded(t *testing.T) {
	p := newPlace(t)
	p.backend = p.c.DSN(p.db, "postgres") + "&ttl=" + ttl.String()
	first := p.sidecar()
	waitHolding(t, first)
	second := p.sidecar("--hold-wait", "1s")
	began := time.Now()
	_, err := pgx.Connect(ctx, second.DSN(p.db, "postgres"))
	if took := time.Since(began); code(err) != "57P03" || !strings.Contains(err.Error(), "does not hold the lock") || took < time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}
