package etcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

var background = context.Background()

func newBackend(t testing.TB, c *clientv3.Client) *etcd.Backend {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, 20*time.Second)
	defer cancel()
	b, err := etcd.New(ctx, c, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func newClient(t testing.TB, c *clientv3.Client, opts ...lockclient.Option) *lockclient.Client {
	t.Helper()
	return lockclient.New(newBackend(t, c), opts...)
}

// versions runs a test against each etcd there is.
func versions(t *testing.T, f func(t *testing.T, dial func() *clientv3.Client)) {
	t.Run("3.7 one member", func(t *testing.T) {
		c := etcdtest.Start(t, 1)
		f(t, func() *clientv3.Client { return c.Client() })
	})
	t.Run("3.7 three members", func(t *testing.T) {
		c := etcdtest.Start(t, 3)
		f(t, func() *clientv3.Client { return c.Client() })
	})
	t.Run("installed", func(t *testing.T) {
		endpoint := etcdtest.Installed(t)
		f(t, func() *clientv3.Client { return etcdtest.Dial(t, endpoint) })
	})
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func keys(t *testing.T, c *clientv3.Client, name string) int {
	t.Helper()
	resp, err := c.Get(background, "fenceproxy/locks/"+name+"=", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return int(resp.Count)
}

func TestBackend(t *testing.T) {
	versions(t, func(t *testing.T, dial func() *clientv3.Client) {
		raw := dial()
		for _, test := range []struct {
			name string
			run  func(t *testing.T, c *clientv3.Client)
		}{
			{"exclusive", testExclusive}, {"order", testOrder}, {"readers", testReaders}, {"epoch", testEpoch}, {"claims", testClaims},
			{"expired waiter", testExpiredWaiter}, {"deleted waiter", testDeletedWaiter}, {"deleted holder", testDeletedHolder},
			{"names", testNames}, {"broken watches", testBrokenWatches}, {"observe", testObserve}, {"leases", testLeases}, {"long wait", testLongWait},
		} {
			t.Run(test.name, func(t *testing.T) {
				if test.name != "epoch" {
					t.Parallel()
				}
				test.run(t, raw)
			})
		}
	})
}

func testExclusive(t *testing.T, c *clientv3.Client) {
	a, b := newClient(t, c, lockclient.WithHolder("a")), newClient(t, c, lockclient.WithHolder("b"))
	l, err := a.TryLock(background, "exclusive")
	if err != nil {
		t.Fatal(err)
	}
	var held *lockclient.HeldError
	if _, err := b.TryLock(background, "exclusive"); !errors.As(err, &held) || held.Holder != "a" || held.Token != l.Fence().Token {
		t.Errorf("TryLock by another: %v", err)
	}
	if _, err := b.Lock(background, "exclusive", lockclient.WithWait(200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock by another: %v", err)
	}
	if n := keys(t, c, "exclusive"); n != 1 {
		t.Errorf("%d keys after a waiter gave up", n)
	}
	if err := l.Confirm(background); err != nil {
		t.Error(err)
	}
	if err := l.Release(background); err != nil {
		t.Error(err)
	}
	m, err := b.Lock(background, "exclusive")
	if err != nil {
		t.Fatal(err)
	}
	if m.Fence().Token.Compare(l.Fence().Token) <= 0 {
		t.Errorf("token %s after %s", m.Fence(), l.Fence())
	}
	// The retried release of an older tenure leaves the newer alone: etcd #22082.
	if err := l.Release(background); err != nil || m.Confirm(background) != nil {
		t.Errorf("%v, %v", err, m.Err())
	}
	m.Release(background)
}

// The epoch is fixed when the lock is asked for; another client learns of a new one by itself.
func testEpoch(t *testing.T, c *clientv3.Client) {
	b := newBackend(t, c)
	client, other := lockclient.New(b), newClient(t, c)
	l, err := client.Lock(background, "epoch")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetEpoch(background, 3); err != nil {
		t.Fatal(err)
	}
	for _, e := range []int64{-1, 0, 2, 3} {
		if err := b.SetEpoch(background, e); err == nil {
			t.Errorf("epoch goes from 3 to %d", e)
		}
	}
	if e := l.Fence().Token.Epoch; e != 0 {
		t.Errorf("a held lock moved to epoch %d", e)
	}
	l.Release(background)
	for _, lock := range []func(context.Context, string, ...lockclient.Option) (*lockclient.Lease, error){other.Lock, client.TryLock} {
		m, err := lock(background, "epoch")
		if err != nil {
			t.Fatal(err)
		}
		if m.Fence().Token.Epoch != 3 {
			t.Errorf("token %s after the epoch was set to 3", m.Fence().Token)
		}
		for seen, err := range other.Observe(background, "epoch") {
			if err != nil || seen.Token != m.Fence().Token {
				t.Errorf("observer sees %v, %v; want token %s", seen, err, m.Fence().Token)
			}
			break
		}
		m.Release(background)
	}
	if _, err := c.Put(background, "fenceproxy/locks/=epoch", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Lock(background, "epoch"); err == nil || !strings.Contains(err.Error(), "holds no epoch") {
		t.Errorf("broken epoch key: %v", err)
	}
	if _, err := c.Delete(background, "fenceproxy/locks/=epoch"); err != nil {
		t.Fatal(err)
	}
}

// Names that are prefixes of each other are different locks.
func testNames(t *testing.T, c *clientv3.Client) {
	client := newClient(t, c)
	for _, name := range []string{"jobs", "jobs/4", "jobs/42", "job", "jobs/", "w/", "jobs/42/w"} {
		l, err := client.TryLock(background, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer l.Release(background)
	}
}

// Each tenure has a lease of its own, and none is left behind: neither by a release, nor by a waiter that gave up, nor by
// TryLock of a lock that is held.
func testLeases(t *testing.T, c *clientv3.Client) {
	backend := newBackend(t, c)
	client := lockclient.New(backend, lockclient.WithTTL(55*time.Second)) // a TTL of its own, to tell its leases
	mine := func() (n int) {
		resp, err := c.Leases(background)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range resp.Leases {
			if ttl, err := c.TimeToLive(background, l.ID); err == nil && ttl.GrantedTTL == 55 {
				n++
			}
		}
		return n
	}
	l, err := client.Lock(background, "leases")
	if err != nil {
		t.Fatal(err)
	}
	client.TryLock(background, "leases")
	client.Lock(background, "leases", lockclient.WithWait(100*time.Millisecond))
	eventually(t, "not one lease", func() bool { return mine() == 1 })
	l.Release(background)
	backend.Settle()
	if n := mine(); n != 0 {
		t.Errorf("%d leases left", n)
	}
}
