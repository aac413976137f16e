package lockclient_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

// rig is a server and a client whose link a test may break, in virtual time.
type rig struct {
	*testing.T
	server *memory.Server
	link   atomic.Pointer[func(kind string) memory.Fate]
	client *lockclient.Client
}

// virtual runs f in a bubble of virtual time.
func virtual(t *testing.T, f func(r *rig), opts ...lockclient.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, server: memory.NewServer(1)}
		conn := r.server.Connect()
		conn.Link = func(kind string) memory.Fate {
			if f := r.link.Load(); f != nil {
				return (*f)(kind)
			}
			return memory.Fate{}
		}
		r.client = lockclient.New(conn, append([]lockclient.Option{lockclient.WithTTL(ttl)}, opts...)...)
		f(r)
	})
}

func (r *rig) breakLink(f func(kind string) memory.Fate) { r.link.Store(&f) }
func (r *rig) cut()                                      { r.breakLink(func(string) memory.Fate { return memory.Fate{LoseOut: true} }) }
func (r *rig) heal()                                     { r.link.Store(nil) }

func (r *rig) lock(opts ...lockclient.Option) *lockclient.Lease {
	r.Helper()
	l, err := r.client.Lock(context.Background(), "l", opts...)
	if err != nil {
		r.Fatal(err)
	}
	return l
}

// other takes the lock for somebody else, who needs no renewal while the test lasts.
func (r *rig) other() *lockclient.Lease {
	r.Helper()
	l, err := lockclient.New(r.server.Connect(), lockclient.WithTTL(time.Hour), lockclient.WithHolder("other")).TryLock(context.Background(), "l")
	if err != nil {
		r.Fatal(err)
	}
	return l
}

func (r *rig) wantLost(l *lockclient.Lease, reason lockclient.Reason) {
	r.Helper()
	var lost *lockclient.LostError
	if !errors.As(l.Err(), &lost) || lost.Reason != reason {
		r.Errorf("lease ended with %v, want reason %s", l.Err(), reason)
	}
	if cause := context.Cause(l.Context()); cause != l.Err() {
		r.Errorf("the context's cause is %v, want %v", cause, l.Err())
	}
	if err := l.Check(); !errors.Is(err, lockclient.ErrLost) {
		r.Errorf("Check says %v", err)
	}
}

var background = context.Background()

func TestRenewalKeepsTheLock(t *testing.T) {
	virtual(t, func(r *rig) {
		l := r.lock()
		time.Sleep(10 * ttl)
		if err := l.Check(); err != nil {
			r.Error(err)
		}
		if err := l.Confirm(background); err != nil {
			r.Error(err)
		}
		if left := time.Until(l.ValidUntil()); left != ttl*99/100 {
			r.Errorf("%v left after Confirm", left)
		}
		if err := l.Release(background); err != nil {
			r.Error(err)
		}
		if err := l.Err(); err != lockclient.ErrReleased || context.Cause(l.Context()) != err {
			r.Errorf("released lease: %v", err)
		}
		r.other().Release(background)
	})
}

// The window counts from when the request was sent: River #1213.
func TestWindowCountsFromSending(t *testing.T) {
	virtual(t, func(r *rig) {
		r.breakLink(func(string) memory.Fate { return memory.Fate{Back: ttl / 2} })
		sent := time.Now()
		l := r.lock()
		if got, want := l.ValidUntil(), sent.Add(ttl*99/100); !got.Equal(want) {
			r.Errorf("window closes %v late", got.Sub(want))
		}
		r.heal()
		l.Release(background)
	})
}

// A failed renewal is no loss and does not end renewal: etcd #13675, Consul #1290 and #5437, pglock #41, cozy-stack #4911.
func TestTransientFailuresAreRetried(t *testing.T) {
	for _, fate := range []memory.Fate{{Fail: true}, {LoseOut: true}, {LoseBack: true}} {
		for phase := range 40 {
			virtual(t, func(r *rig) { // an outage of half the TTL costs nothing, whenever it begins
				l := r.lock()
				time.Sleep(ttl + ttl*time.Duration(phase)/40)
				r.breakLink(func(string) memory.Fate { return fate })
				time.Sleep(ttl / 2)
				r.heal()
				time.Sleep(2 * ttl)
				if err := l.Check(); err != nil {
					r.Fatalf("%+v, phase %d: %v", fate, phase, err)
				}
				l.Release(background)
			})
		}
	}
}

// A service slower than the first attempts' limit keeps the lock all the same.
func TestSlowServiceKeepsTheLock(t *testing.T) {
	for _, opts := range [][]lockclient.Option{nil, {lockclient.WithAdaptiveRenewal()}} {
		virtual(t, func(r *rig) {
			l := r.lock()
			r.breakLink(func(string) memory.Fate { return memory.Fate{Out: ttl * 3 / 20, Back: ttl * 3 / 20} })
			time.Sleep(20 * ttl)
			if err := l.Check(); err != nil {
				r.Error(err)
			}
			r.heal()
			l.Release(background)
			time.Sleep(ttl)
		}, opts...)
	}
}

func TestPreemptiveRenewal(t *testing.T) {
	virtual(t, func(r *rig) {
		l := r.lock(lockclient.WithPreemptiveRenewal(ttl * 9 / 10))
		time.Sleep(ttl / 5)
		l.Check()
		synctest.Wait()
		if left := time.Until(l.ValidUntil()); left < ttl*9/10 {
			r.Errorf("%v left after Check", left)
		}
		l.Release(background)
	})
}
