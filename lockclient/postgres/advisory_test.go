package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// An advisory lock with a token: held by a session, known to other programs by its key, the token raised before it counts.
func TestAdvisory(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	for _, keys := range []KeyForm{Hash, Pair} {
		t.Run(string(keys), func(t *testing.T) {
			c := w.client(Config{Mode: Advisory, Keys: keys})
			name := "7:42"
			key := must[Key](t)(keys.key(name))
			l := must[*lockclient.Lease](t)(c.Lock(ctx, name, lockclient.WithHolder("me")))
			if m := w.mark(name); m != l.Fence().Token.String() {
				t.Errorf("mark %s, token %s", m, l.Fence().Token)
			}
			if got := w.text("SELECT " + key.call("pg_try_advisory_lock")); got != "false" {
				t.Error("another program got the lock by its key")
			}
			_, err := c.TryLock(ctx, name)
			var held *lockclient.HeldError
			if !errors.As(err, &held) || held.Token != l.Fence().Token || held.Holder != "me" {
				t.Error(err)
			}
			if err := l.Confirm(ctx); err != nil {
				t.Error(err)
			}
			next := make(chan *lockclient.Lease)
			go func() {
				l, err := c.Lock(ctx, name)
				if err != nil {
					t.Error(err)
				}
				next <- l
			}()
			eventually(t, "queued", func() bool {
				return w.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == "1"
			})
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
			l2 := <-next
			if l2.Fence().Token.Compare(l.Fence().Token) <= 0 {
				t.Error(l2.Fence().Token, "after", l.Fence().Token)
			}
			if _, err := w.guard(name, l.Fence().Token); !isCode(err, "ZF001") {
				t.Error("the old token:", err)
			}
			l2.Release(ctx)
			if got := w.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"); got != "0" && keys == Hash {
				t.Error("locks left:", got)
			}
		})
	}
}

// The hash is the one that the documentation gives in SQL.
func TestHashKey(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	for _, name := range []string{"billing", "jobs/42", ""} {
		want := w.text("SELECT ('x' || left(encode(sha256(convert_to($1::text, 'UTF8')), 'hex'), 16))::bit(64)::int8", name)
		if got := fmt.Sprint(HashKey(name).hash); got != want {
			t.Errorf("%q: %s, SQL says %s", name, got, want)
		}
	}
	for _, name := range []string{"7", "7:", "a:b", "7:42:1", "99999999999:1", "1178947139:5"} {
		if _, err := Pair.key(name); err == nil {
			t.Errorf("%q is a pair", name)
		}
	}
}

// DistributedLock #230, #133: the end of the session is a loss, told at the next renewal; and a holder that is silent for
// its TTL, stopped or cut off, loses its session, so that the next one gets on.
func TestAdvisorySessionEnds(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	b := w.open(Config{Mode: Advisory})
	c := lockclient.New(b)
	name := lockName()
	l := must[*lockclient.Lease](t)(c.Lock(ctx, name))
	w.exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1")
	if err := l.Confirm(ctx); !errors.Is(err, lockclient.ErrLost) {
		t.Error(err)
	}
	l.Release(ctx)
	silent := must[lockclient.Claim](t)(b.Request(ctx, lockclient.Request{Name: name, TTL: 400 * time.Millisecond}))
	begin := time.Now()
	l = must[*lockclient.Lease](t)(c.Lock(ctx, name))
	if d := time.Since(begin); d > 5*time.Second || d < 300*time.Millisecond {
		t.Errorf("a silent holder was replaced after %v", d)
	}
	if _, err := b.Renew(ctx, silent); !errors.Is(err, lockclient.ErrLost) {
		t.Error(err)
	}
	if l.Fence().Token.Compare(silent.Token) <= 0 {
		t.Error("token", l.Fence().Token)
	}
	l.Release(ctx)
}

func TestAdvisoryReaders(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{Mode: Advisory})
	name := lockName()
	r1, r2 := must[*lockclient.Lease](t)(c.RLock(ctx, name)), must[*lockclient.Lease](t)(c.TryRLock(ctx, name))
	if _, err := c.TryLock(ctx, name); !errors.Is(err, lockclient.ErrHeld) {
		t.Error("a writer among readers:", err)
	}
	r1.Release(ctx)
	r2.Release(ctx)
	l := must[*lockclient.Lease](t)(c.TryLock(ctx, name))
	if _, err := c.TryRLock(ctx, name); !errors.Is(err, lockclient.ErrHeld) {
		t.Error("a reader beside a writer:", err)
	}
	l.Release(ctx)
}

// As for leases: what was guarded under the last token ends before the next tenure begins.
func TestAdvisoryTakeover(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{Mode: Advisory, Grace: 300 * time.Millisecond})
	name := lockName()
	for _, take := range []func() (*lockclient.Lease, error){
		func() (*lockclient.Lease, error) { return c.Lock(ctx, name) },
		func() (*lockclient.Lease, error) { return c.TryLock(ctx, name) },
	} {
		l := must[*lockclient.Lease](t)(c.Lock(ctx, name))
		g := w.mustGuard(name, l.Fence().Token)
		l.Release(ctx)
		begin := time.Now()
		l = must[*lockclient.Lease](t)(take())
		if d := time.Since(begin); d < 250*time.Millisecond || d > 5*time.Second {
			t.Errorf("taken over after %v", d)
		}
		if err := g.tx.Commit(ctx); err == nil {
			t.Error("the frozen transaction committed")
		}
		l.Release(ctx)
	}
}

func TestAdvisoryObserve(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{Mode: Advisory, Poll: 10 * time.Millisecond})
	name := lockName()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen := make(chan string, 10)
	go func() {
		for l := range c.Observe(limited, name) {
			seen <- l.Holder
		}
		close(seen)
	}()
	var got []string
	got = append(got, <-seen)
	l := must[*lockclient.Lease](t)(c.Lock(ctx, name, lockclient.WithHolder("a")))
	got = append(got, <-seen)
	l.Release(ctx)
	got = append(got, <-seen)
	if strings.Join(got, ",") != ",a," {
		t.Errorf("%q", got)
	}
}

// Transaction mode: the lock ends with the transaction that writes, and needs no token.
func TestTransactionLocks(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	a, b := w.c.Connect(t, w.db, "app"), w.c.Connect(t, w.db, "app")
	key := HashKey(lockName())
	tx1, err := a.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tx2, err := b.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := LockTx(ctx, tx1, key); err != nil {
		t.Fatal(err)
	}
	if ok, err := TryLockTx(ctx, tx2, key); ok || err != nil {
		t.Error("two transactions:", ok, err)
	}
	tx1.Commit(ctx)
	if ok, err := TryLockTx(ctx, tx2, key); !ok || err != nil {
		t.Error("after the commit:", ok, err)
	}
	tx2.Rollback(ctx)
}
