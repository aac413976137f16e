package lockclient_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

// stubborn is a backend whose renewals take a second, whatever their context says.
type stubborn struct {
	lockclient.Backend
	renewing atomic.Int64
	overlap  atomic.Bool
}

func (s *stubborn) Renew(ctx context.Context, c lockclient.Claim) (time.Duration, error) {
	s.renewing.Add(1)
	defer s.renewing.Add(-1)
	time.Sleep(time.Second)
	return s.Backend.Renew(context.WithoutCancel(ctx), c)
}

func (s *stubborn) Release(ctx context.Context, c lockclient.Claim) error {
	if s.renewing.Load() > 0 {
		s.overlap.Store(true)
	}
	return s.Backend.Release(ctx, c)
}

// Release waits for renewals under way, lest one of them outlives it: Redisson #2714, #7272.
func TestReleaseJoinsTheRenewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &stubborn{Backend: memory.NewServer(1).Connect()}
		l, err := lockclient.New(b, lockclient.WithTTL(ttl)).Lock(background, "l")
		if err != nil {
			t.Fatal(err)
		}
		for b.renewing.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := l.Release(background); err != nil || b.overlap.Load() {
			t.Errorf("%v; released beside a renewal: %v", err, b.overlap.Load())
		}
	})
}

// A renewal that is overtaken by a later one does not move the window back.
func TestOvertakenRenewal(t *testing.T) {
	virtual(t, func(r *rig) {
		l := r.lock()
		var n atomic.Int64
		r.breakLink(func(string) memory.Fate {
			if n.Add(1) == 1 {
				return memory.Fate{Back: ttl * 28 / 100}
			}
			return memory.Fate{}
		})
		go l.Confirm(background) // the slow one
		time.Sleep(ttl / 5)
		if err := l.Confirm(background); err != nil {
			r.Fatal(err)
		}
		until := l.ValidUntil()
		time.Sleep(ttl * 9 / 100) // the slow one's reply has come, the renewer has not moved yet
		if now := l.ValidUntil(); now.Before(until) {
			r.Errorf("the window moved back by %v", until.Sub(now))
		}
		l.Release(background)
	})
}

// queueless is a backend that keeps no claim while it waits, as a table without tickets: the claim's time starts with the
// request that won it, of which only the backend knows when it was sent.
type queueless struct{ lockclient.Backend }

func (q queueless) Request(ctx context.Context, req lockclient.Request) (lockclient.Claim, error) {
	return lockclient.Claim{Name: req.Name, Mode: req.Mode, Ref: req}, nil
}

func (q queueless) Wait(ctx context.Context, c lockclient.Claim) (lockclient.Claim, error) {
	req := c.Ref.(lockclient.Request)
	req.Queue = false
	for {
		sent := time.Now()
		won, err := q.Backend.Request(ctx, req)
		if err == nil {
			time.Sleep(ttl / 10) // its reply was slow
			won.Since = sent
			return won, nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return c, ctx.Err()
		}
	}
}

func (q queueless) Release(ctx context.Context, c lockclient.Claim) error {
	if _, waiting := c.Ref.(lockclient.Request); waiting {
		return nil
	}
	return q.Backend.Release(ctx, c)
}

func TestQueueWithoutClaims(t *testing.T) {
	virtual(t, func(r *rig) {
		o := r.other()
		time.AfterFunc(5*ttl, func() { o.Release(background) })
		client := lockclient.New(queueless{r.server.Connect()}, lockclient.WithTTL(ttl))
		if _, err := client.Lock(background, "l", lockclient.WithWait(ttl)); err == nil {
			r.Fatal("acquired")
		}
		l, err := client.Lock(background, "l")
		if err != nil {
			r.Fatal(err)
		}
		if left, want := time.Until(l.ValidUntil()), ttl*99/100-ttl/10; left != want {
			r.Errorf("%v of the window left, want %v", left, want)
		}
		time.Sleep(5 * ttl)
		if err := l.Confirm(background); err != nil {
			r.Error(err)
		}
		l.Release(background)
	})
}
