package lockclient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

// Two goroutines of one process exclude each other (etcd #11364), and a lost lease does not stand in the way of the next
// (Consul #4902). A new tenure of one holder has a new token (eventstore #176).
func TestNotReentrant(t *testing.T) {
	virtual(t, func(r *rig) {
		a := r.lock()
		if _, err := r.client.TryLock(background, "l"); !errors.Is(err, lockclient.ErrHeld) || !errors.Is(err, lockclient.ErrNotAcquired) {
			r.Errorf("second TryLock: %v", err)
		}
		for _, again := range []func(context.Context, string, ...lockclient.Option) (*lockclient.Lease, error){r.client.Lock, r.client.TryLock, r.client.RLock} {
			if _, err := again(a.Context(), "l"); !errors.Is(err, lockclient.ErrNested) {
				r.Errorf("through the context: %v", err)
			}
		}
		inner, err := r.client.Lock(a.Context(), "m")
		if err != nil {
			r.Fatal(err)
		}
		if got := lockclient.FromContext(inner.Context()); got != inner {
			r.Error("FromContext is not the innermost lease")
		}
		n := 0
		for range lockclient.Leases(inner.Context()) {
			n++
		}
		if n != 2 {
			r.Errorf("%d leases in the context", n)
		}
		inner.Release(background)
		before := a.Fence().Token
		a.MarkLost(nil)
		a.Release(background)
		b := r.lock()
		if b.Fence().Token.Compare(before) <= 0 {
			r.Errorf("token %s after %s", b.Fence().Token, before)
		}
		b.Release(background)
	})
}

// What went wrong is told apart: the caller's deadline, somebody else's lock, the service. redislock #79.
func TestErrors(t *testing.T) {
	virtual(t, func(r *rig) {
		o := r.other()
		began := time.Now()
		_, err := r.client.Lock(background, "l", lockclient.WithWait(ttl))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lockclient.ErrNotAcquired) || time.Since(began) != ttl {
			r.Errorf("WithWait: %v after %v", err, time.Since(began))
		}
		var held *lockclient.HeldError
		if _, err = r.client.TryLock(background, "l"); !errors.As(err, &held) || held.Holder != "other" || held.Token != o.Fence().Token {
			r.Errorf("TryLock: %v", err)
		}
		r.breakLink(func(string) memory.Fate { return memory.Fate{Fail: true} })
		if _, err = r.client.TryLock(background, "l"); !errors.Is(err, lockclient.ErrUnavailable) {
			r.Errorf("TryLock without a service: %v", err)
		}
		if _, err = r.client.Lock(background, "l", lockclient.WithWait(ttl)); !errors.Is(err, lockclient.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("Lock without a service: %v", err)
		}
		for _, name := range []string{"", "a b", "a=b"} {
			if _, err = r.client.Lock(background, name); err == nil {
				r.Errorf("name %q is taken", name)
			}
		}
		for _, o := range []lockclient.Option{lockclient.WithTTL(0), lockclient.WithGrace(ttl), lockclient.WithDrift(0.5), lockclient.WithReleaseTimeout(0)} {
			if _, err = r.client.Lock(background, "l", o); err == nil || errors.Is(err, context.DeadlineExceeded) {
				r.Errorf("bad option: %v", err)
			}
		}
		o.Release(background)
	})
}

// A waiter who gives up leaves the queue; one whose place is lost in an outage stands again.
func TestQueue(t *testing.T) {
	virtual(t, func(r *rig) {
		o := r.other()
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(3*ttl, cancel)
		if _, err := r.client.Lock(ctx, "l"); !errors.Is(err, context.Canceled) {
			r.Error(err)
		}
		if q := r.server.Queue("l"); len(q) != 1 {
			r.Errorf("queue: %v", q)
		}
		time.AfterFunc(ttl, r.cut)
		time.AfterFunc(5*ttl, r.heal)
		time.AfterFunc(8*ttl, func() { o.Release(background) })
		l := r.lock()
		if err := l.Confirm(background); err != nil {
			r.Error(err)
		}
		l.Release(background)
	})
}
