package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

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

// Who waits for longer than its TTL keeps its place, and the token that it was given with it.
func testLongWait(t *testing.T, c *clientv3.Client) {
	client := newClient(t, c, lockclient.WithTTL(time.Second), lockclient.WithGrace(time.Second/2), lockclient.WithHooks(lockclient.Hooks{
		Requeued: func(_ string, err error) { t.Errorf("stands again: %v", err) },
	}))
	first, err := client.Lock(background, "long")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 2)
	var places []int64
	for i := range 2 {
		go func() {
			l, err := client.Lock(background, "long")
			if err != nil {
				t.Error(err)
			} else if l.Fence().Token.Counter != places[i] {
				t.Errorf("token %s, want %d", l.Fence().Token, places[i])
			}
			got <- i
			if l != nil {
				l.Release(background)
			}
		}()
		eventually(t, "does not queue", func() bool { return keys(t, c, "long") == i+2 })
		resp, err := c.Get(background, "fenceproxy/locks/long=", clientv3.WithLastCreate()...)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, resp.Kvs[0].CreateRevision)
	}
	time.Sleep(3 * time.Second)
	first.Release(background)
	if a, b := <-got, <-got; a != 0 || b != 1 {
		t.Errorf("order %d, %d", a, b)
	}
}

// Close while locks are being released: a matter for the race detector.
func TestCloseAmidReleases(t *testing.T) {
	c := etcdtest.Start(t, 1).Client()
	for range 20 {
		b := newBackend(t, c)
		var wg sync.WaitGroup
		for i := range 4 {
			claim, err := b.Request(background, lockclient.Request{Name: fmt.Sprint("closing", i), TTL: time.Minute, Holder: "h"})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if err := b.Release(background, claim); err != nil {
					t.Error(err)
				}
			})
		}
		b.Close()
		wg.Wait()
	}
}
