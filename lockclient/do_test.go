package lockclient_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

// The lock is released after the work has stopped, also when the work is told to stop and takes its time: client-go #728,
// Kubernetes #139504. Renewal has ended by then: Redisson #7272.
func TestDoReleasesAfterTheWork(t *testing.T) {
	virtual(t, func(r *rig) {
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(time.Second, cancel)
		err := r.client.Do(ctx, "l", func(ctx context.Context, l *lockclient.Lease) error {
			<-ctx.Done()
			time.Sleep(2 * ttl)
			if err := l.Check(); err != nil {
				r.Errorf("released under the work: %v", err)
			}
			if q := r.server.Queue("l"); len(q) != 1 || q[0].ID != l.Fence().Token.Counter {
				r.Errorf("queue: %v", q)
			}
			return ctx.Err()
		})
		if err != context.Canceled {
			r.Errorf("Do returns %v", err)
		}
		if q := r.server.Queue("l"); len(q) != 0 {
			r.Errorf("not released: %v", q)
		}
	})
}

// A loss is in Do's error, whatever the work returns.
func TestDoTellsOfLoss(t *testing.T) {
	own := errors.New("own")
	for _, result := range []error{nil, own, lockclient.ErrLost} {
		virtual(t, func(r *rig) {
			err := r.client.Do(background, "l", func(ctx context.Context, l *lockclient.Lease) error {
				r.cut()
				<-ctx.Done()
				return result
			})
			if !errors.Is(err, lockclient.ErrLost) || result != nil && !errors.Is(err, result) {
				r.Errorf("work returns %v, Do returns %v", result, err)
			}
		})
	}
	virtual(t, func(r *rig) { // work that does not look at its context, of a lock that somebody deleted meanwhile
		err := r.client.Do(background, "l", func(context.Context, *lockclient.Lease) error {
			r.server.Drop("l")
			return nil
		})
		if !errors.Is(err, lockclient.ErrLost) {
			r.Errorf("Do returns %v", err)
		}
	})
}

func TestDoReleasesAfterPanic(t *testing.T) {
	virtual(t, func(r *rig) {
		func() {
			defer func() {
				if recover() == nil {
					r.Error("the panic is gone")
				}
			}()
			r.client.Do(background, "l", func(context.Context, *lockclient.Lease) error { panic("work") })
		}()
		r.other().Release(background)
	})
}

// Campaign stands again after a loss, with a new token, and returns what the work returned by itself.
func TestCampaign(t *testing.T) {
	virtual(t, func(r *rig) {
		var terms []lockclient.Fence
		done := errors.New("done")
		err := r.client.Campaign(background, "l", func(ctx context.Context, l *lockclient.Lease) error {
			terms = append(terms, l.Fence())
			switch len(terms) {
			case 1:
				r.cut()
				time.AfterFunc(3*ttl, r.heal)
				<-ctx.Done()
				time.Sleep(ttl) // late, but the next term waits for it
				return nil
			case 2:
				l.MarkLost(errors.New("ZF001"))
				return ctx.Err()
			}
			return done
		})
		if err != done || len(terms) != 3 {
			r.Fatalf("%v after terms %v", err, terms)
		}
		for i := range 2 {
			if terms[i+1].Token.Compare(terms[i].Token) <= 0 {
				r.Errorf("terms: %v", terms)
			}
		}
	})
	virtual(t, func(r *rig) {
		o := r.other()
		ctx, cancel := context.WithTimeout(background, ttl)
		defer cancel()
		if err := r.client.Campaign(ctx, "l", nil); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("Campaign returns %v", err)
		}
		o.Release(background)
	})
}

// Observers hear of each holder and of vacancy; an outage is told, and the sequence goes on.
func TestObserve(t *testing.T) {
	virtual(t, func(r *rig) {
		var down atomic.Bool
		flaky := r.server.Connect()
		flaky.Link = func(string) memory.Fate { return memory.Fate{Fail: down.Load()} }
		watch := lockclient.New(flaky)
		ctx, cancel := context.WithCancel(background)
		var seen []string
		var wg sync.WaitGroup
		wg.Go(func() {
			for l, err := range watch.Observe(ctx, "l") {
				switch {
				case err != nil:
					if last := len(seen) - 1; seen[last] != "down" {
						seen = append(seen, "down")
					}
				case l.Vacant():
					seen = append(seen, "vacant")
				default:
					seen = append(seen, fmt.Sprint(l.Holder, " ", l.Token))
				}
			}
		})
		synctest.Wait()
		a := r.lock(lockclient.WithHolder("a"))
		synctest.Wait()
		var b *lockclient.Lease
		wg.Go(func() { b = r.lock(lockclient.WithHolder("b")) })
		synctest.Wait()
		a.Release(background)
		synctest.Wait()
		down.Store(true)
		b.Release(background)
		synctest.Wait()
		down.Store(false)
		time.Sleep(time.Minute)
		cancel()
		wg.Wait()
		if got, want := fmt.Sprint(seen), "[vacant a 1 b 2 down vacant]"; got != want {
			r.Errorf("seen %s, want %s", got, want)
		}
		for l, err := range watch.Observe(background, "l") {
			if err != nil || !l.Vacant() {
				r.Error(l, err)
			}
			break
		}
		for _, err := range watch.Observe(background, "bad name") {
			if err == nil {
				r.Error("bad name")
			}
		}
	})
}

// Readers share, writers do not, and nobody overtakes.
func TestReadersAndWriters(t *testing.T) {
	virtual(t, func(r *rig) {
		r1, err1 := r.client.RLock(background, "l")
		r2, err2 := r.client.TryRLock(background, "l")
		if err := errors.Join(err1, err2); err != nil {
			r.Fatal(err)
		}
		var order []string
		var wg sync.WaitGroup
		wg.Go(func() {
			w := r.lock()
			order = append(order, "writer")
			time.Sleep(ttl)
			w.Release(background)
		})
		synctest.Wait()
		if _, err := r.client.TryRLock(background, "l"); !errors.Is(err, lockclient.ErrHeld) {
			r.Errorf("a reader overtakes a writer: %v", err)
		}
		wg.Go(func() {
			l, err := r.client.RLock(background, "l")
			if err != nil {
				r.Error(err)
				return
			}
			order = append(order, "reader")
			l.Release(background)
		})
		time.Sleep(3 * ttl)
		if len(order) != 0 {
			r.Errorf("%v beside readers", order)
		}
		r1.Release(background)
		r2.Release(background)
		wg.Wait()
		if fmt.Sprint(order) != "[writer reader]" {
			r.Error(order)
		}
	})
}
