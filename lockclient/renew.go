package lockclient

import (
	"context"
	"errors"
	"sync"
	"time"
)

// renewals renews the claim until it ends.
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
	timer := time.NewTimer(k.pause(0))
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-k.poke:
		}
		if k.overdueBeat() {
			timer.Reset(k.pause(1))
			continue
		}
		if err := k.renew(ctx, failures); err == nil {
			failures = 0
		} else {
			failures++
		}
		timer.Reset(k.pause(failures))
	}
}

// renew tries once. nil: renewed; *LostError or ErrReleased: the claim has ended; else the outcome is unknown, the
// window as it was.
func (k *keeper) renew(ctx context.Context, failures int) error {
	left, err := k.check()
	if err != nil {
		return err
	}
	sent := k.clock.read()
	limit := k.limit(failures, left)
	k.mu.Lock()
	claim, fence, tell := k.claim, k.fence, k.isHeld
	k.due, k.busy = reading{sent.mono + limit, sent.wall + limit}, true
	k.mu.Unlock()
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
	k.mu.Lock()
	k.busy = false
	k.mu.Unlock()
	return err
}

// unlost is what a backend's proof of loss says beyond ErrLost.
func unlost(err error) error {
	if err == ErrLost {
		return nil
	}
	return err
}

// limit bounds one attempt, so that a lost reply does not cost the window; each further attempt gets twice as long, so that
// a slow service is not given up for a dead one.
func (k *keeper) limit(failures int, left time.Duration) time.Duration {
	first := k.ttl() / 5
	if k.cfg.adaptive {
		first = max(left/4, k.ttl()/50)
	}
	return max(min(first<<min(failures, 4), left), 1)
}

// pause is the time until the next attempt, a third of the TTL after the last success was sent.
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
		return jitter(min(max(left/4, ttl/100), ttl/6))
	default:
		return jitter(min(ttl/24<<min(failures-1, 4), ttl/6))
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

// watchLoss waits for the backend's word that the claim is gone.
func (k *keeper) watchLoss(ctx context.Context, w LossWatcher) {
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
