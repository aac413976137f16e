package lockclient

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"
)

// Lease is one tenure of a lock. It is single-use: lost or released it stays so, and a new tenure has a new token. All
// methods may be called concurrently.
type Lease struct {
	client *Client
	keeper *keeper
	fence  Fence
	mode   Mode
	outer  *Lease
	ctx    context.Context
	since  time.Time

	release sync.Once
	over    chan struct{} // closed when Release begins
	result  error
}

func newLease(parent context.Context, c *Client, k *keeper, waited time.Duration) *Lease {
	l := &Lease{client: c, keeper: k, fence: k.fence, mode: k.claim.Mode, outer: FromContext(parent), since: time.Now(), over: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, leaseKey{}, l))
	l.ctx = ctx
	k.cfg.acquired(k.fence, l.mode, waited)
	k.mu.Lock()
	k.onEnd = func(err error) {
		cancel(err)
		if err != ErrReleased && k.cfg.exitAfter > 0 {
			go exitUnless(l.over, k.cfg.exitAfter, k.cfg.exit)
		}
	}
	if k.err != nil {
		k.onEnd(k.err)
	}
	k.mu.Unlock()
	return l
}

// Context is for the work under the lock. It derives from the context that was given to Lock and is cancelled when the
// lease ends, with a *LostError or ErrReleased as its cause: at the latest when the trust window, less the grace, closes.
func (l *Lease) Context() context.Context { return l.ctx }

// Done is closed when the lease is lost or released.
func (l *Lease) Done() <-chan struct{} { return l.keeper.ended }

// Err is nil while the lease is held, else a *LostError or ErrReleased. It does not look at the clock: Check does.
func (l *Lease) Err() error { return l.keeper.ending() }

// Fence is the lock and the token of this tenure.
func (l *Lease) Fence() Fence { return l.fence }

// Mode is how the lock is held. The token of a Shared lease fences nothing: others hold the lock as well, with tokens of
// their own, so whoever passes tokens to a database leaves a reader's out.
func (l *Lease) Mode() Mode { return l.mode }

// ValidUntil is the end of the trust window: nobody else is given the lock before. With a grace the lease ends that much
// earlier. It carries a monotonic reading; when the wall clock runs ahead, as after a suspend, it counts.
func (l *Lease) ValidUntil() time.Time {
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.clock.now().Add(k.win.left(k.clock.read()))
}

// Check looks at the clock only: nil when the lease may be trusted at this moment. Timers do not fire while a process is
// stopped, so call it after anything that may have been slow and before anything that matters. It costs no allocation.
func (l *Lease) Check() error {
	left, err := l.keeper.check()
	if err == nil && left < l.keeper.cfg.preemptive {
		l.keeper.renewSoon()
	}
	return err
}

// Connection is what the lock lives on, nil for a backend whose locks outlive connections (Capabilities.SessionBound). It is
// not for reading, writing or closing. A helper process that has a copy of its descriptor keeps the lock from being given to
// another at the very moment when this process dies; it then ends with the copy, or with its TTL.
func (l *Lease) Connection() syscall.Conn {
	b, ok := l.client.backend.(Connected)
	if !ok {
		return nil
	}
	k := l.keeper
	k.mu.Lock()
	claim := k.claim
	k.mu.Unlock()
	return b.Connection(claim)
}

// Confirm asks the service, in one renewal: nil when the lease was held after Confirm was called. A *LostError is final;
// ErrReleased too; with any other error the lease is held for the rest of its window.
func (l *Lease) Confirm(ctx context.Context) error { return l.keeper.renew(ctx) }

// Beat tells that the worker is alive, for WithHeartbeat.
func (l *Lease) Beat() {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	l.keeper.beat = l.keeper.clock.read()
}

// MarkLost ends the lease because somebody knows better, as the database does when it rejects the token with ZF001.
func (l *Lease) MarkLost(cause error) { l.keeper.lose(Fenced, cause) }

// Release ends the lease: it stops the renewer, waits for it, and gives up exactly this tenure. Call it when the work
// has stopped. It works with a context that has ended, takes no longer than WithReleaseTimeout, and further calls return
// what the first did: nil; a *LostError when the lock turns out to have been gone before; or why the service could not
// be told, in which case the lock ends with its TTL.
func (l *Lease) Release(ctx context.Context) error {
	l.release.Do(func() {
		close(l.over)
		k := l.keeper
		held := time.Since(l.since)
		k.check() // a window that has closed is a loss, not a release
		k.end(ErrReleased)
		err := k.release(ctx)
		if errors.Is(err, ErrLost) {
			if k.ending() == ErrReleased {
				k.mu.Lock()
				e := k.lost(Released, unlost(err))
				k.err = e
				k.mu.Unlock()
				k.cfg.lost(e)
				err = e
			} else {
				err = nil // the loss was told when it was noticed
			}
		}
		l.result = err
		k.cfg.released(l.fence, held, err)
	})
	return l.result
}
