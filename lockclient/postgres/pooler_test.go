package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// The lease table works through a transaction pooler: no session state, and the queue moves without notifications.
func TestLeaseThroughTransactionPooler(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{DSN: pgbouncer(t, w, "transaction", 6), Poll: 20 * time.Millisecond, Grace: 300 * time.Millisecond})
	name := lockName()
	var mu sync.Mutex
	var last tokens.Token
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 3 {
				err := c.Do(ctx, name, func(_ context.Context, l *lockclient.Lease) error {
					mu.Lock()
					defer mu.Unlock()
					if l.Fence().Token.Compare(last) <= 0 {
						t.Error("tokens out of order")
					}
					last = l.Fence().Token
					return l.Confirm(ctx)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	// Eviction does not know its backend's pid through a pooler, and finds it all the same.
	g := w.mustGuard(name, last)
	l, err := c.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.tx.Commit(ctx); err == nil {
		t.Error("the frozen transaction committed")
	}
	l.Release(ctx)
}

// authentik #23876, DistributedLock #168: an advisory lock behind a transaction pooler is held by a session of others.
func TestAdvisoryRefusesPoolers(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	transaction, session := pgbouncer(t, w, "transaction", 6), pgbouncer(t, w, "session", 6)
	for _, tc := range []struct {
		what   string
		dsn    string
		stated bool
		want   error
	}{
		{"transaction pooler", transaction, false, ErrPooler},
		{"transaction pooler that is said to be in session mode", transaction, true, ErrPooler},
		{"session pooler", session, false, ErrPooler},
		{"session pooler that is said to be one", session, true, nil},
	} {
		b, err := Open(ctx, Config{DSN: tc.dsn, Mode: Advisory, SessionPooler: tc.stated})
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.what, err)
		}
		if err != nil {
			continue
		}
		c := lockclient.New(b)
		l, err := c.Lock(ctx, lockName())
		if err != nil {
			t.Errorf("%s: %v", tc.what, err)
			continue
		}
		if err := l.Confirm(ctx); err != nil {
			t.Error(err)
		}
		l.Release(ctx)
		c.Close()
	}
}
