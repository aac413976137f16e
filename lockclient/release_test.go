package lockclient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// Release works with a context that has ended, is bounded and idempotent.
func TestRelease(t *testing.T) {
	virtual(t, func(r *rig) {
		ctx, cancel := context.WithCancel(background)
		l, err := r.client.Lock(ctx, "l")
		if err != nil {
			r.Fatal(err)
		}
		cancel()
		if err := l.Release(ctx); err != nil {
			r.Error(err)
		}
		r.other().Release(background)
	})
	virtual(t, func(r *rig) {
		l := r.lock()
		r.cut()
		began := time.Now()
		first := l.Release(background)
		if d := time.Since(began); first == nil || d > lockclient.DefaultRelease {
			r.Errorf("release without a service: %v after %v", first, d)
		}
		if again := l.Release(background); again != first {
			r.Errorf("second release: %v, want %v", again, first)
		}
		time.Sleep(ttl) // it ends with its TTL: the renewer is not running any more (Redisson #7272)
		r.other().Release(background)
	})
	virtual(t, func(r *rig) { // only this tenure is released, and one that was gone is told
		l := r.lock()
		r.server.Drop("l")
		o := r.other()
		if err := l.Release(background); !errors.Is(err, lockclient.ErrLost) {
			r.Errorf("release of a lock that was gone: %v", err)
		}
		var lost *lockclient.LostError
		if !errors.As(l.Err(), &lost) || lost.Reason != lockclient.Released {
			r.Errorf("lease ended with %v", l.Err())
		}
		if err := o.Confirm(background); err != nil {
			r.Errorf("the next holder: %v", err)
		}
		o.Release(background)
	})
	virtual(t, func(r *rig) { // the reply to a release is lost: the retry finds nothing, which is no loss
		l := r.lock()
		n := 0
		r.breakLink(func(string) memory.Fate { n++; return memory.Fate{LoseBack: n == 1} })
		if err := l.Release(background); err != nil || l.Err() != lockclient.ErrReleased {
			r.Errorf("%v, %v", err, l.Err())
		}
	})
}

// A service that lost its history is not believed.
func TestRegression(t *testing.T) {
	virtual(t, func(r *rig) {
		r.lock().Release(background)
		r.lock().Release(background)
		r.server.SetNext(1)
		if _, err := r.client.Lock(background, "l"); !errors.Is(err, lockclient.ErrRegressed) {
			r.Errorf("token after a restore: %v", err)
		}
		r.server.SetEpoch(1)
		l := r.lock()
		if want := (tokens.Token{Epoch: 1, Counter: 2}); l.Fence().Token != want {
			r.Errorf("token %s, want %s", l.Fence().Token, want)
		}
		l.Release(background)
	})
}
