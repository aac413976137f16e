package etcd_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

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
