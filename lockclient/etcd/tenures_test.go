package etcd_test

import (
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

var full = flag.Bool("full", false, "10,000 tenures instead of 1,500")

// Token order is the order of tenures; nobody starves: between two tenures of one contender each other has two at most,
// one that queued before it and one that overtook it while it was on its way to the queue again.
func TestTenures(t *testing.T) {
	t.Parallel()
	const contenders = 16
	tenures := int64(1500)
	if *full {
		tenures = 10000
	}
	cluster := etcdtest.Start(t, 1)
	var clients []*lockclient.Client
	for range 4 {
		clients = append(clients, newClient(t, cluster.Client()))
	}
	var (
		inside atomic.Int64
		mu     sync.Mutex
		order  []int
		last   = lockclient.Fence{}
		wg     sync.WaitGroup
	)
	began := time.Now()
	for i := range contenders {
		wg.Go(func() {
			for {
				l, err := clients[i%len(clients)].Lock(background, "l")
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d holders", n)
				}
				mu.Lock()
				n := int64(len(order))
				if n < tenures {
					if l.Fence().Token.Compare(last.Token) <= 0 {
						t.Errorf("token %s after %s", l.Fence(), last)
					}
					last = l.Fence()
					order = append(order, i)
				}
				mu.Unlock()
				inside.Add(-1)
				if err := l.Release(background); err != nil {
					t.Error(err)
				}
				if n >= tenures || t.Failed() {
					return
				}
			}
		})
	}
	wg.Wait()
	count := make([]int, contenders)
	gap := 0 // longest wait, in tenures of others
	for n, i := range order {
		count[i]++
		for m := n - 1; m >= 0 && order[m] != i; m-- {
			gap = max(gap, n-m)
		}
	}
	took := time.Since(began)
	t.Logf("%d tenures of %d contenders in %v, %.0f a second; %d to %d for each, longest wait %d tenures", len(order), contenders,
		took.Round(time.Millisecond), float64(len(order))/took.Seconds(), slices.Min(count), slices.Max(count), gap)
	if slices.Min(count)*2 < slices.Max(count) && !t.Failed() {
		t.Errorf("tenures: %v", count)
	}
}
