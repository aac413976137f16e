package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokens"
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
			{"exclusive", testExclusive}, {"order", testOrder}, {"readers", testReaders}, {"epoch", testEpoch},
			{"expired waiter", testExpiredWaiter}, {"deleted waiter", testDeletedWaiter}, {"deleted holder", testDeletedHolder},
			{"names", testNames}, {"broken watches", testBrokenWatches}, {"observe", testObserve}, {"leases", testLeases},
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

// FIFO: whoever asked first is served first, and has the lower token.
func testOrder(t *testing.T, c *clientv3.Client) {
	client := newClient(t, c)
	first, err := client.Lock(background, "order")
	if err != nil {
		t.Fatal(err)
	}
	const waiters = 12
	var mu sync.Mutex
	var order []int
	last := first.Fence().Token
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			l, err := client.Lock(background, "order")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			if resp, err := c.Get(background, "fenceproxy/locks/order=", clientv3.WithFirstCreate()...); err != nil || resp.Kvs[0].CreateRevision != l.Fence().Token.Counter {
				t.Errorf("token %s is not the create revision of the oldest key: %v, %v", l.Fence().Token, resp, err)
			}
			if l.Fence().Token.Compare(last) <= 0 {
				t.Errorf("token %s after %s", l.Fence().Token, last)
			}
			last = l.Fence().Token
			mu.Unlock()
			l.Release(background)
		})
		eventually(t, "waiter does not queue", func() bool { return keys(t, c, "order") == i+2 })
	}
	first.Release(background)
	wg.Wait()
	for i := range order {
		if order[i] != i {
			t.Fatalf("order %v", order)
		}
	}
}

func testReaders(t *testing.T, c *clientv3.Client) {
	client := newClient(t, c)
	r1, err1 := client.RLock(background, "rw")
	r2, err2 := client.TryRLock(background, "rw")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if _, err := client.TryLock(background, "rw"); !errors.Is(err, lockclient.ErrHeld) {
		t.Errorf("writer beside readers: %v", err)
	}
	order := make(chan string, 2)
	queue := func(kind string, lock func(context.Context, string, ...lockclient.Option) (*lockclient.Lease, error)) {
		n := keys(t, c, "rw")
		go func() {
			l, err := lock(background, "rw")
			if err != nil {
				t.Error(err)
				return
			}
			order <- kind
			l.Release(background)
		}()
		eventually(t, "does not queue", func() bool { return keys(t, c, "rw") == n+1 })
	}
	queue("writer", client.Lock)
	if _, err := client.TryRLock(background, "rw"); !errors.Is(err, lockclient.ErrHeld) {
		t.Errorf("a reader overtakes a writer: %v", err)
	}
	queue("reader", client.RLock)
	r2.Release(background)
	select {
	case who := <-order:
		t.Errorf("%s beside a reader", who)
	case <-time.After(100 * time.Millisecond):
	}
	r1.Release(background)
	if got := <-order + " " + <-order; got != "writer reader" {
		t.Error(got)
	}
	// A reader does not wait for readers that are older.
	r3, err := client.RLock(background, "rw")
	if err != nil {
		t.Fatal(err)
	}
	r4, err := client.RLock(background, "rw", lockclient.WithWait(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	r3.Release(background)
	r4.Release(background)
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

// The schedule of etcd #11456 and #9921. A holds, B and C queue, B's lease expires while it still waits, A lets go: etcd
// 3.4's own lock service tells B and C that they own the lock, with one token (TestStockLockService).
func testExpiredWaiter(t *testing.T, c *clientv3.Client) {
	backend := newBackend(t, c)
	request := func(ttl time.Duration) lockclient.Claim {
		claim, err := backend.Request(background, lockclient.Request{Name: "expired", TTL: ttl, Holder: "h", Queue: true})
		if err != nil {
			t.Fatal(err)
		}
		return claim
	}
	a, b, c2 := request(time.Minute), request(2*time.Second), request(time.Minute)
	if !a.Held || b.Held || c2.Held {
		t.Fatal(a, b, c2)
	}
	answer := make(chan error, 1)
	go func() {
		got, err := backend.Wait(background, b)
		if err == nil {
			err = fmt.Errorf("an expired waiter owns the lock with token %s", got.Token)
		}
		answer <- err
	}()
	select {
	case err := <-answer: // told before A lets go: etcd #19597
		if !errors.Is(err, lockclient.ErrLost) {
			t.Error(err)
		}
	case <-time.After(8 * time.Second):
		t.Error("an expired waiter waits on")
	}
	if err := backend.Release(background, a); err != nil {
		t.Error(err)
	}
	if _, err := backend.Wait(background, b); !errors.Is(err, lockclient.ErrLost) {
		t.Errorf("expired waiter: %v", err)
	}
	own, err := backend.Wait(background, c2)
	if err != nil || own.Token.Compare(a.Token) <= 0 {
		t.Errorf("next owner: %+v, %v", own, err)
	}
	if _, err := backend.Renew(background, b); !errors.Is(err, lockclient.ErrLost) {
		t.Errorf("renewal of an expired waiter: %v", err)
	}
	backend.Release(background, own)
}

// An operator deletes a waiter's key: Lock stands again by itself.
func testDeletedWaiter(t *testing.T, c *clientv3.Client) {
	client := newClient(t, c)
	l, err := client.Lock(background, "waiter")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *lockclient.Lease, 1)
	go func() {
		m, err := client.Lock(background, "waiter")
		if err != nil {
			t.Error(err)
		}
		got <- m
	}()
	eventually(t, "does not queue", func() bool { return keys(t, c, "waiter") == 2 })
	resp, err := c.Get(background, "fenceproxy/locks/waiter=", clientv3.WithLastCreate()...)
	if err != nil {
		t.Fatal(err)
	}
	c.Delete(background, string(resp.Kvs[0].Key))
	eventually(t, "does not queue again", func() bool {
		now, err := c.Get(background, "fenceproxy/locks/waiter=", clientv3.WithLastCreate()...)
		return err == nil && now.Count == 2 && now.Kvs[0].CreateRevision > resp.Kvs[0].CreateRevision
	})
	l.Release(background)
	if m := <-got; m != nil {
		m.Release(background)
	}
}

// A holder whose key is deleted learns it at once, not at its next renewal: etcd #6127.
func testDeletedHolder(t *testing.T, c *clientv3.Client) {
	client := newClient(t, c, lockclient.WithTTL(time.Minute))
	l, err := client.Lock(background, "holder")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // both orders must work: watching already, or not yet
	c.Delete(background, "fenceproxy/locks/holder=", clientv3.WithPrefix())
	select {
	case <-l.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("not told")
	}
	var lost *lockclient.LostError
	if !errors.As(l.Err(), &lost) || lost.Reason != lockclient.Gone {
		t.Error(l.Err())
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

// brokenWatcher breaks the first watches of each key in each way that a watch can end: compacted (etcd #7815), cancelled by
// a member without a leader, closed.
type brokenWatcher struct {
	clientv3.Watcher
	mu   sync.Mutex
	seen map[string]int
}

func (w *brokenWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	w.mu.Lock()
	n := w.seen[key]
	w.seen[key]++
	w.mu.Unlock()
	broken := []clientv3.WatchResponse{
		{CompactRevision: 1, Canceled: true},
		{Canceled: true, CancelReason: "etcdserver: no leader"},
		{Canceled: true},
	}
	if n > len(broken) {
		return w.Watcher.Watch(ctx, key, opts...)
	}
	c := make(chan clientv3.WatchResponse, 1)
	if n < len(broken) {
		c <- broken[n]
	}
	close(c)
	return c
}

func testBrokenWatches(t *testing.T, c *clientv3.Client) {
	broken := etcdtest.Dial(t, c.Endpoints()...)
	watcher := &brokenWatcher{Watcher: broken.Watcher, seen: map[string]int{}}
	broken.Watcher = watcher
	client := newClient(t, broken, lockclient.WithTTL(time.Minute))
	l, err := client.Lock(background, "broken")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *lockclient.Lease, 1)
	go func() {
		m, err := client.Lock(background, "broken")
		if err != nil {
			t.Error(err)
		}
		got <- m
	}()
	vacant := make(chan struct{})
	go func() {
		defer close(vacant)
		held := false
		for o, err := range client.Observe(background, "broken") {
			if err != nil {
				t.Error(err)
			}
			if held = held || !o.Vacant(); held && o.Vacant() {
				return
			}
		}
	}()
	eventually(t, "the key is not watched again", func() bool {
		watcher.mu.Lock()
		defer watcher.mu.Unlock()
		for _, n := range watcher.seen {
			if n > 4 {
				return true
			}
		}
		return false
	})
	l.Release(background)
	m := <-got
	if m == nil {
		return
	}
	c.Delete(background, "fenceproxy/locks/broken=", clientv3.WithPrefix())
	for what, done := range map[string]<-chan struct{}{"holder": m.Done(), "observer": vacant} {
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Errorf("the %s is not told", what)
		}
	}
}

// Each holder is seen, and vacancy: etcd #18163, and what Observe of concurrency.Election never tells.
func testObserve(t *testing.T, c *clientv3.Client) {
	client := newClient(t, c)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	seen := make(chan lockclient.Leader)
	go func() {
		defer close(seen)
		for l, err := range client.Observe(ctx, "seen") {
			if err != nil {
				t.Error(err)
			}
			select {
			case seen <- l:
			case <-ctx.Done():
			}
		}
	}()
	want := func(holder string, token tokens.Token) {
		t.Helper()
		select {
		case l := <-seen:
			if l.Holder != holder || l.Token != token || l.Vacant() != (holder == "") {
				t.Fatalf("seen %+v, want %s %s", l, holder, token)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s is not seen", holder)
		}
	}
	want("", tokens.Token{})
	for _, holder := range []string{"a", "b"} {
		l, err := client.Lock(background, "seen", lockclient.WithHolder(holder))
		if err != nil {
			t.Fatal(err)
		}
		want(holder, l.Fence().Token)
		l.Release(background)
		want("", tokens.Token{})
	}
	r, err := client.RLock(background, "seen")
	if err != nil {
		t.Fatal(err)
	}
	r.Release(background) // readers are no leaders
	l, err := client.Lock(background, "seen", lockclient.WithHolder("c"))
	if err != nil {
		t.Fatal(err)
	}
	want("c", l.Fence().Token)
	l.Release(background)
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
