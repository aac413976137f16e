package lockclient

import (
	"context"
	"errors"
	"sync"
	"time"
)

// mostFlying bounds the renewals of one claim that run at once. They are more than one when replies are lost or slow.
const mostFlying = 8

// round is the attempts up to the first success, which ends the others.
type round struct {
	ctx context.Context
	end context.CancelFunc
}

func newRound(ctx context.Context) *round {
	r := new(round)
	r.ctx, r.end = context.WithCancel(ctx)
	return r
}

// renewals renews the claim until it ends. An attempt that does not answer is not given up but joined by another: a lost
// message costs a fraction of the window, and a slow service is not taken for a dead one. Each success counts from when
// its own request was sent.
func (k *keeper) renewals(ctx context.Context) {
	defer close(k.joined)
	var others sync.WaitGroup
	defer others.Wait()
	if w, ok := k.backend.(LossWatcher); ok {
		others.Go(func() { k.watchLoss(ctx, w) })
	}
	if k.cfg.watchdog != nil {
		others.Go(func() { k.watchProcess(ctx) })
	}
	type outcome struct {
		round *round
		err   error
	}
	outcomes := make(chan outcome)
	flying, failures := 0, 0
	now := newRound(ctx)
	first := k.pause(0)
	timer, next := time.NewTimer(first), time.Now().Add(first)
	defer timer.Stop()
	after := func(d time.Duration) {
		next = time.Now().Add(d)
		timer.Reset(d)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-outcomes:
			flying--
			if o.round != now {
				continue
			}
			if o.err != nil {
				failures++
				if d := k.pause(failures); d < time.Until(next) { // an old attempt's end postpones nothing
					after(d)
				}
				continue
			}
			now.end()
			now, failures = newRound(ctx), 0
			after(k.pause(0))
			continue
		case <-timer.C:
		case <-k.poke:
			if flying > 0 {
				continue
			}
		}
		if k.overdueBeat() || flying == mostFlying {
			after(k.pause(1))
			continue
		}
		flying++
		r := now
		others.Go(func() {
			o := outcome{r, k.renew(r.ctx)}
			select {
			case outcomes <- o:
			case <-ctx.Done():
			}
		})
		after(k.pause(mostFlying))
	}
}

// renew tries once. nil: renewed; *LostError or ErrReleased: the claim has ended; else the outcome is unknown, the
// window as it was.
func (k *keeper) renew(ctx context.Context) error {
	left, err := k.check()
	if err != nil {
		return err
	}
	sent := k.clock.read()
	k.mu.Lock()
	claim, fence, tell := k.claim, k.fence, k.isHeld
	k.mu.Unlock()
	limit := min(left, claim.TTL*2/5)
	if k.cfg.watchdog != nil {
		stuck := time.AfterFunc(claim.TTL/2, k.stuck)
		defer stuck.Stop()
	}
	attempt, cancel := context.WithTimeout(ctx, limit)
	ttl, err := k.backend.Renew(attempt, claim)
	cancel()
	switch {
	case err == nil:
		err = k.extend(sent, ttl)
		if err == nil && tell {
			k.cfg.renewed(fence, sent.elapsed(k.clock.read()), left)
		}
	case errors.Is(err, ErrLost):
		k.lose(Gone, unlost(err))
		err = k.ending()
	case ctx.Err() == nil:
		k.mu.Lock()
		k.late = err
		left = k.win.left(k.clock.read())
		k.mu.Unlock()
		if tell {
			k.cfg.renewFailed(fence, err, left)
		}
	}
	return err
}

// unlost is what a backend's proof of loss says beyond ErrLost.
func unlost(err error) error {
	if err == ErrLost {
		return nil
	}
	return err
}

// pause is the time until the next attempt: a third of the TTL after the last success was sent, less after failures.
func (k *keeper) pause(failures int) time.Duration {
	k.mu.Lock()
	now := k.clock.read()
	left, ttl, passed := k.win.left(now), k.claim.TTL, k.win.sent.elapsed(now)
	k.mu.Unlock()
	switch {
	case failures == 0:
		d := ttl / 3
		return max(d-(d-jitter(d))/5-passed, ttl/100) // up to a tenth earlier
	case k.cfg.adaptive:
		return jitter(min(max(left/4, ttl/100), ttl/8))
	default:
		return jitter(min(ttl/24<<min(failures-1, 4), ttl/8))
	}
}

func (k *keeper) ttl() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.claim.TTL
}

func (k *keeper) overdueBeat() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.silent(k.clock.read())
}

// watchLoss waits for the backend's word that a held claim is gone. A short tenure is over before it begins.
func (k *keeper) watchLoss(ctx context.Context, w LossWatcher) {
	select {
	case <-k.holds:
	case <-ctx.Done():
		return
	}
	if sleep(ctx, k.ttl()/100) != nil {
		return
	}
	for failures := 1; ; failures++ {
		k.mu.Lock()
		claim := k.claim
		k.mu.Unlock()
		err := w.WatchLoss(ctx, claim)
		if errors.Is(err, ErrLost) {
			k.lose(Gone, unlost(err))
			return
		}
		if sleep(ctx, k.pause(failures)) != nil {
			return
		}
	}
}
