package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// promote makes the cluster a standby and promotes it: what a failover to a standby that was up to date looks like.
func promote(t *testing.T, w *world) {
	t.Helper()
	w.c.Stop()
	if err := os.WriteFile(filepath.Join(w.c.SocketDir(), "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.c.Restart(t)
	w.su = w.c.Connect(t, w.db, "postgres")
	w.exec("SELECT pg_promote()")
}

// H12: after a promotion the tokens of before are refused, whatever form the guard has, until somebody acquires anew; the
// holder of before hears of it at its next renewal; and a lossy promotion cannot bring a token back. Mutants "no
// timeline in guard_one", "… in guard1", "… in GuardReadSQL", "renew does not compare timelines": red.
func TestPromotion(t *testing.T) {
	c := pgtest.Start(t)
	w := newWorld(t, c)
	b := w.open(Config{})
	client := lockclient.New(b, lockclient.WithTTL(30*time.Second))
	const name = "billing"
	l := must[*lockclient.Lease](t)(client.Lock(ctx, name))
	old := l.Fence().Token
	if old.Epoch != 1 {
		t.Error("epoch on the first timeline:", old)
	}
	dead := must[lockclient.Claim](t)(b.Request(ctx, lockclient.Request{Name: "dead", TTL: time.Second}))
	w.exec("SELECT fence.raise('etcd', 0, 34, 'x', NULL)")
	promote(t, w)

	app := w.c.Connect(t, w.db, "app")
	var id int32
	if err := app.QueryRow(ctx, "SELECT id FROM fence.mark WHERE name = $1", name).Scan(&id); err != nil {
		t.Fatal(err)
	}
	mark := tokens.Mark{ID: id, Name: name, Token: old}
	raw := name + "=" + old.String()
	guards := map[string]func() error{
		"guard": func() error { _, err := app.Exec(ctx, string(tokens.AppendGuard(nil, []string{name}, ""))); return err },
		"guard1": func() error {
			_, err := app.Exec(ctx, string(tokens.AppendFastGuard(nil, mark, raw, old, "")))
			return err
		},
		"guard_session": func() error { _, err := app.Exec(ctx, string(tokens.AppendGuardSession(nil, "", false))); return err },
		"inline": func() error {
			var got string
			return app.QueryRow(ctx, tokens.GuardReadSQL, id, name, raw, old.Epoch, old.Counter, "").Scan(&got)
		},
	}
	try := func(f func() error) error {
		t.Helper()
		for _, sql := range []string{"BEGIN", "SET LOCAL fence.token = '" + raw + "'"} {
			if _, err := app.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
		defer app.Exec(ctx, "ROLLBACK")
		return f()
	}
	for what, f := range guards {
		if err := try(f); !isCode(err, "ZF001") {
			t.Errorf("%s with the token of the old timeline: %v", what, err)
		}
	}
	if _, err := w.guard("etcd", tokens.Token{Counter: 34}); err != nil {
		t.Error("tokens from elsewhere have no floor:", err)
	}

	// A token that was issued and lost with the old server: its holder presents it, and still may not write.
	w.exec("SELECT fence.raise('" + name + "', 1, 500, 'zombie', NULL)")
	if _, err := w.guard(name, tokens.Token{Epoch: 1, Counter: 500}); !isCode(err, "ZF001") {
		t.Error("a token of the old timeline that was lost:", err)
	}

	// An old holder counts for a TTL from when the promotion was noticed: its last renewal may have been lost.
	begin := time.Now()
	next := must[lockclient.Claim](t)(waitFor(b, lockclient.Request{Name: dead.Name, TTL: time.Second, Queue: true}))
	if d := time.Since(begin); d < 900*time.Millisecond {
		t.Errorf("granted to another %v after the promotion", d)
	}
	if next.Token.Epoch != 2 || next.Token.Compare(dead.Token) <= 0 {
		t.Error("token after the promotion:", next.Token)
	}
	// One that asks, or watches its mark, learns that it has lost, and then the lock is free.
	eventually(t, "the holder knows", func() bool { return errors.Is(l.Confirm(ctx), lockclient.ErrLost) })
	l.Release(ctx)
	l2 := must[*lockclient.Lease](t)(client.TryLock(ctx, name))
	if l2.Fence().Token.Epoch != 2 {
		t.Error(l2.Fence())
	}
	if _, err := w.guard(name, l2.Fence().Token); err != nil {
		t.Error("the new token:", err)
	}
	for what, f := range guards {
		if err := try(f); !isCode(err, "ZF001") {
			t.Errorf("%s with the old token, afterwards: %v", what, err)
		}
	}
}

// waitFor requests a claim and waits for it, renewing nothing.
func waitFor(b lockclient.Backend, req lockclient.Request) (lockclient.Claim, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ttl := req.TTL
	req.TTL = time.Minute // of the ticket: nobody renews it here
	claim, err := b.Request(limited, req)
	for errors.Is(err, lockclient.ErrUnavailable) && limited.Err() == nil { // connections from before
		claim, err = b.Request(limited, req)
	}
	if err != nil || claim.Held {
		return claim, err
	}
	claim.TTL = ttl
	return b.Wait(limited, claim)
}

// On a standby there are no locks, and that is told as a server that is not available.
func TestStandby(t *testing.T) {
	c := pgtest.Start(t)
	w := newWorld(t, c)
	b := w.open(Config{})
	c.Stop()
	if err := os.WriteFile(filepath.Join(c.SocketDir(), "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Restart(t)
	_, err := b.Request(ctx, lockclient.Request{Name: "x", TTL: time.Second})
	for errors.Is(err, lockclient.ErrUnavailable) && state(err) != "25006" { // connections of before the restart
		_, err = b.Request(ctx, lockclient.Request{Name: "x", TTL: time.Second})
	}
	if !errors.Is(err, lockclient.ErrUnavailable) {
		t.Error(err)
	}
}

// With a synchronous standby gone nothing is acknowledged, not even when the wait for it is cancelled, which commits here
// and perhaps nowhere else; and what was not acknowledged is not told later as held. Mutant "warnings are not looked at": red.
func TestSynchronousStandbyGone(t *testing.T) {
	c := pgtest.Start(t)
	w := newWorld(t, c)
	b := w.open(Config{})
	w.exec("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	w.exec("SELECT pg_reload_conf()")
	eventually(t, "commits wait for the standby", func() bool { // once the checkpointer has seen the new setting
		limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := c.Connect(t, w.db, "postgres").Exec(limited, "SELECT pg_logical_emit_message(true, '', '')")
		return err != nil
	})
	waits := func() bool {
		return w.text("SELECT count(*) FROM pg_stat_activity WHERE usename = 'control' AND wait_event = 'SyncRep'") != "0"
	}
	asked := make(chan error, 1)
	go func() {
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := b.Request(limited, lockclient.Request{Name: "x", TTL: time.Minute, Queue: true})
		asked <- err
	}()
	eventually(t, "the grant waits for its standby", waits)
	w.exec("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	if err := <-asked; !errors.Is(err, lockclient.ErrUnavailable) {
		t.Error("the wait was cancelled:", err)
	}
	// Tell again what was granted and not acknowledged: it waits as well.
	claim := w.text("SELECT claim FROM fence.lease WHERE name = 'x'")
	if claim != "NULL" { // the client has given it back, or is about to
		go func() {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := b.Wait(limited, lockclient.Claim{Name: "x", TTL: time.Minute, Ref: claim})
			asked <- err
		}()
		if err := <-asked; err == nil {
			t.Error("acknowledged without the standby")
		}
	}
	w.exec("ALTER SYSTEM RESET synchronous_standby_names")
	w.exec("SELECT pg_reload_conf()")
	l := must[*lockclient.Lease](t)(lockclient.New(b).Lock(ctx, "x"))
	l.Release(ctx)
}
