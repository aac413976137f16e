package lockclient_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

var full = flag.Bool("full", false, "every schedule and 10,000 tenures")

const ttl = 10 * time.Second

// fates that the adversary of TestSchedules chooses from for each message of the holder.
var fates = []memory.Fate{
	{},
	{Out: ttl / 5},
	{Back: ttl / 5},
	{Out: ttl / 2, Back: ttl / 10},
	{Back: ttl / 2},
	{Out: ttl * 11 / 10},
	{LoseOut: true},
	{LoseBack: true},
	{Fail: true},
}

// TestSchedules: whatever happens to the holder's messages, its context is done before the service could grant the lock
// to another. Mutants that turn it red: the window counted from the reply; a renewal that revives a closed window; no
// allowance for the clocks' drift.
func TestSchedules(t *testing.T) {
	const horizon = 5 // messages that the adversary decides on; all later ones are lost
	total := 1
	for range horizon {
		total *= len(fates)
	}
	rates := []float64{0.99, 1, 1.01}
	step := 1
	if !*full {
		step = 7 // coprime with 9: every fate at every place
	}
	tried, losses, extended := 0, 0, 0
	for n := 0; n < total; n += step {
		rate := rates[tried%len(rates)]
		var opts []lockclient.Option
		if tried/3%2 == 1 {
			opts = append(opts, lockclient.WithAdaptiveRenewal())
		}
		if tried/6%2 == 1 {
			opts = append(opts, lockclient.WithGrace(ttl/7))
		}
		synctest.Test(t, func(t *testing.T) {
			held := runSchedule(t, n, horizon, rate, tried/12%2 == 1, opts)
			if held > 0 {
				losses++
			}
			if held > ttl {
				extended++
			}
		})
		if tried++; t.Failed() {
			return
		}
	}
	t.Logf("%d schedules of %d: %d messages, %d fates each, server clock at %v; the lock was held and lost in %d, for more than one TTL in %d",
		tried, total, horizon, len(fates), rates, losses, extended)
}

// runSchedule plays schedule n and returns how long the holder held the lock. With queue it first waits for another to
// release it, so that part of the messages renew its place.
func runSchedule(t *testing.T, n, horizon int, rate float64, queue bool, opts []lockclient.Option) (held time.Duration) {
	schedule := fmt.Sprintf("schedule %d, rate %v, queue %v", n, rate, queue)
	server := memory.NewServer(rate)
	var mu sync.Mutex
	leases := map[int64]*lockclient.Lease{}
	server.Taken = func(c memory.Claim) {
		mu.Lock()
		defer mu.Unlock()
		if l := leases[c.ID]; l != nil && l.Context().Err() == nil {
			t.Errorf("%s: the service takes the lock from a holder that does not know it", schedule)
		}
	}
	conn := server.Connect()
	message := 0
	conn.Link = func(string) memory.Fate {
		mu.Lock()
		defer mu.Unlock()
		if message++; message > horizon {
			return memory.Fate{LoseOut: true}
		}
		f := fates[n%len(fates)]
		n /= len(fates)
		return f
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	holder := lockclient.New(conn, append(opts, lockclient.WithTTL(ttl), lockclient.WithReleaseTimeout(time.Second), lockclient.WithWait(5*ttl))...)
	lock := holder.TryLock
	if queue {
		first, err := lockclient.New(server.Connect(), lockclient.WithTTL(ttl)).TryLock(ctx, "l")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(ttl, func() { first.Release(ctx) })
		lock = holder.Lock
	}
	lease, err := lock(ctx, "l")
	defer time.Sleep(2 * ttl) // messages on their way arrive
	if err != nil {
		return 0
	}
	mu.Lock()
	leases[lease.Fence().Token.Counter] = lease
	mu.Unlock()
	began := time.Now()
	next := lockclient.New(server.Connect(), lockclient.WithTTL(ttl))
	second, err := next.Lock(context.Background(), "l")
	if err != nil {
		t.Fatalf("%s: %v", schedule, err)
	}
	held = time.Since(began)
	if lease.Context().Err() == nil || lease.Err() == nil {
		t.Errorf("%s: two leases of one lock", schedule)
	}
	if a, b := lease.Fence().Token, second.Fence().Token; b.Compare(a) <= 0 {
		t.Errorf("%s: token %s follows %s", schedule, b, a)
	}
	lease.Release(ctx)
	second.Release(ctx)
	return held
}
