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
	"github.com/fenceproxy/fenceproxy/tokens"
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

// The service never answers again: etcd #5571, #6922, Consul #18271. The loss needs no answer.
func TestLossNeedsNoAnswer(t *testing.T) {
	virtual(t, func(r *rig) {
		l := r.lock()
		until := l.ValidUntil()
		r.cut()
		<-l.Context().Done()
		if now := time.Now(); now.After(until) {
			r.Errorf("lost %v after the window closed", now.Sub(until))
		}
		r.wantLost(l, lockclient.Expired)
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

// Lost is lost: no renewal revives or re-creates the lock, even one that would succeed. Kubernetes #44887, redsync #158,
// redis-semaphore #175, Redisson #5698.
func TestLossIsFinal(t *testing.T) {
	virtual(t, func(r *rig) {
		l := r.lock()
		l.MarkLost(errors.New("ZF001"))
		for range 3 {
			if err := l.Confirm(background); !errors.Is(err, lockclient.ErrLost) {
				r.Errorf("Confirm says %v", err)
			}
			time.Sleep(ttl)
		}
		r.wantLost(l, lockclient.Fenced)
		if q := r.server.Queue("l"); len(q) != 0 {
			r.Errorf("renewal went on: %v", q)
		}
	})
	virtual(t, func(r *rig) { // the server drops it: the renewal must not bring it back
		l := r.lock()
		r.server.Drop("l")
		<-l.Done()
		r.wantLost(l, lockclient.Gone)
		if q := r.server.Queue("l"); len(q) != 0 {
			r.Errorf("re-created: %v", q)
		}
	})
}

// The process is stopped while a renewal is on its way, and wakes after the window: the reply in its socket does not
// revive the lease, though it would open a window that has not closed yet.
func TestReplyAfterTheWindow(t *testing.T) {
	var skipped atomic.Int64 // time that passed while no timer could fire
	clock := func() time.Time { return time.Now().Add(time.Duration(skipped.Load())) }
	virtual(t, func(r *rig) {
		l := r.lock(lockclient.WithClocks(clock, nil))
		r.breakLink(func(kind string) memory.Fate {
			if kind == "renew" {
				skipped.Store(int64(ttl * 7 / 10))
			}
			return memory.Fate{}
		})
		time.Sleep(ttl / 3)
		r.wantLost(l, lockclient.Expired)
		l.Release(background)
	})
}

// A suspended system: Go's monotonic clock stands still (golang/go#24595), timers do not fire, the wall clock jumps.
func TestSuspend(t *testing.T) {
	var suspended atomic.Int64
	now := func() time.Time { return time.Now().Add(-time.Duration(suspended.Load())) }
	wall := func() time.Time { return time.Now().Round(0) }
	virtual(t, func(r *rig) {
		l := r.lock()
		r.cut() // a machine that is suspended renews nothing
		suspended.Store(int64(ttl))
		time.Sleep(ttl * 98 / 100)
		if err := l.Check(); err != nil {
			r.Fatal(err)
		}
		time.Sleep(ttl / 50)
		r.wantLost(l, lockclient.Expired)
		l.Release(background)
	}, lockclient.WithClocks(now, wall))
}

// Work is told grace before the window closes.
func TestGrace(t *testing.T) {
	virtual(t, func(r *rig) {
		l := r.lock(lockclient.WithGrace(ttl / 4))
		r.cut()
		<-l.Context().Done()
		if left := time.Until(l.ValidUntil()); left != ttl/4 {
			r.Errorf("%v of the window left at the end", left)
		}
		var lost *lockclient.LostError
		if errors.As(l.Err(), &lost); lost.Until.Sub(lost.At) != ttl/4 {
			r.Errorf("%+v", lost)
		}
	})
}

// A worker that is dead does not hold the lock for ever: etcd #17470, Redisson #5115.
func TestHeartbeat(t *testing.T) {
	virtual(t, func(r *rig) {
		l := r.lock(lockclient.WithHeartbeat(ttl))
		for range 30 {
			l.Beat()
			time.Sleep(ttl * 9 / 10)
		}
		if err := l.Check(); err != nil {
			r.Fatal(err)
		}
		beat := time.Now()
		l.Beat()
		<-l.Done()
		if d := time.Since(beat); d > 2*ttl {
			r.Errorf("lost only %v after the last beat", d)
		}
		r.wantLost(l, lockclient.Silent)
	})
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

func TestWatchdog(t *testing.T) {
	ended := make(chan string, 1)
	watchdog := lockclient.WithWatchdog(func(reason string) {
		select {
		case ended <- reason:
		default:
		}
	})
	virtual(t, func(r *rig) { // a renewal that does not come back
		hang := make(chan struct{})
		l := r.lock(watchdog, lockclient.WithHooks(lockclient.Hooks{Renewed: func(lockclient.Fence, time.Duration, time.Duration) { <-hang }}))
		time.Sleep(ttl)
		select {
		case reason := <-ended:
			r.Log(reason)
		default:
			r.Error("the process was not ended")
		}
		close(hang)
		l.Release(background)
	})
	var skipped atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(skipped.Load())) }
	virtual(t, func(r *rig) { // the process did not run
		l := r.lock(watchdog, lockclient.WithClocks(clock, nil))
		time.Sleep(ttl)
		skipped.Store(int64(ttl * 6 / 10))
		time.Sleep(ttl / 4)
		select {
		case reason := <-ended:
			r.Log(reason)
		default:
			r.Error("the process was not ended")
		}
		l.Release(background)
	})
}

// Cilium #42920: a process that cannot stop its work is ended. One that has stopped is not.
func TestExitOnLoss(t *testing.T) {
	for _, stops := range []bool{true, false} {
		var code atomic.Int64
		virtual(t, func(r *rig) {
			l := r.lock(lockclient.WithExitOnLoss(time.Second), lockclient.WithExit(func(c int) { code.Store(int64(c)) }))
			l.MarkLost(nil)
			time.Sleep(time.Second / 2)
			if stops {
				l.Release(background)
			}
			time.Sleep(time.Second)
			if got := code.Load(); (got == lockclient.ExitLost) == stops {
				r.Errorf("work stops %v: exit code %d", stops, got)
			}
			l.Release(background)
		})
	}
}

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
