package lockclient_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

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
