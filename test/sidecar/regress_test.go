package sidecar

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/lockclient/etcd"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// An etcd whose data is gone starts with low revisions again. Its tokens are below the mark: no instance says that it
// holds the lock, the reason is told everywhere, the lock is not taken again and again, and all is well when the epoch is raised.
// Mutant: stand does not raise before took.
func TestServiceThatLostItsHistory(t *testing.T) {
	p := newPlace(t)
	e, err := etcdtest.RunAlone(etcdtest.Volatile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	p.backend = "etcd://" + e.Host() + "?ttl=" + ttl.String()
	// What an earlier etcd has given.
	proxytest.MustCommand(t, "fence", "raise", "acct", "5000", "--yes", "--dsn", p.c.DSN(p.db, "postgres"))
	side := p.sidecar("--when-not-held", "refuse")
	const reason = "it has lost its history"
	poll(t, "the reason is told", func() bool { return strings.Contains(holder(t, side).Problem, reason) })
	for range 20 { // clients do not make it worse
		if _, err := pgx.Connect(ctx, side.DSN(p.db, "postgres")); code(err) != "57P03" || !strings.Contains(hint(err), reason) {
			t.Fatalf("%v: %s", err, hint(err))
		}
		if holder(t, side).Holding {
			t.Fatal("holds the lock under a token that is stale")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if c, _, _ := side.Get("/readyz"); c != 503 {
		t.Errorf("/readyz: %d", c)
	}
	if n := strings.Count(side.Log(), "cannot take the lock"); n == 0 || n > 8 || !strings.Contains(side.Log(), reason) {
		t.Errorf("%d lines in the log:\n%s", n, side.LogTail(3000))
	}
	// The operator's way out.
	proxytest.MustCommand(t, "fence", "bump-epoch", "acct", "--reason", "etcd lost", "--yes", "--dsn", p.c.DSN(p.db, "postgres"))
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	backend, err := etcd.New(ctx, client, "")
	if err == nil {
		err = backend.SetEpoch(ctx, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	waitHolding(t, side)
	if err := pay(connect(t, side, p.db)); err != nil {
		t.Error(err)
	}
}

// The former holder is cut off by the takeover itself, also when no client comes to the new one. Mutant: as above.
func TestTakeoverRaises(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		side := p.sidecar()
		waitHolding(t, side)
		var token string
		err := p.c.Connect(t, p.db, "postgres").QueryRow(ctx, "SELECT CASE WHEN epoch = 0 THEN '' ELSE epoch || '.' END || token FROM fence.mark WHERE name = 'acct'").Scan(&token)
		if got := holder(t, side).Token; err != nil || token != got {
			t.Errorf("mark %q, %v, token of the tenure %q", token, err, got)
		}
	})
}

// A sidecar whose address is taken ends, and does not wait for a lock that it never stood for. Mutant: Close waits for run.
func TestAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(limit, proxytest.Binary(t), "serve", "--listen", l.Addr().String(), "--upstream", "postgres://x@127.0.0.1:1/d",
		"--fence", "acct=acct", "--hold", "acct", "--backend", "etcd://127.0.0.1:1")
	if out, err := cmd.CombinedOutput(); limit.Err() != nil || err == nil || !strings.Contains(string(out), "address already in use") {
		t.Errorf("%v, %v: %s", err, limit.Err(), out)
	}
}
