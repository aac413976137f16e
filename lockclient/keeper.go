package lockclient

import (
	"context"
	"errors"
	"sync"
	"time"
)

// keeper keeps one claim, in the queue and after: it renews the claim and ends it, once and for ever, when its window
// closes, the backend proves it gone, or it is given up. The end does not depend on the renewer: a timer brings it
// about, and so does whoever looks at the clock first.
type keeper struct {
	backend Backend
	cfg     *config
	clock   clock
	name    string // of the lock

	poke   chan struct{} // renew now
	holds  chan struct{} // closed when the claim is a tenure
	ended  chan struct{} // closed when err is set
	stop   context.CancelFunc
	joined chan struct{} // closed when the renewer has returned; nil before it starts

	mu     sync.Mutex
	claim  Claim
	fence  Fence
	win    window
	isHeld bool
	err    error       // ErrReleased or *LostError
	onEnd  func(error) // called once with err
	timer  *time.Timer
	beat   reading
	late   error // last failed renewal
}

func newKeeper(b Backend, cfg *config, clk clock, claim Claim, sent reading) *keeper {
	k := &keeper{backend: b, cfg: cfg, clock: clk, name: claim.Name, claim: claim, poke: make(chan struct{}, 1), holds: make(chan struct{}), ended: make(chan struct{})}
	if !claim.Since.IsZero() {
		sent = clk.at(claim.Since)
		k.claim.Since = time.Time{} // told once: the claim that Wait returns must not tell it again
	}
	k.beat = sent
	if claim.TTL > 0 {
		k.win = newWindow(sent, claim.TTL, cfg.drift)
		k.start()
	}
	return k
}

// start begins renewal and arms the end. The window is set.
func (k *keeper) start() {
	var ctx context.Context
	ctx, k.stop = context.WithCancel(context.Background())
	k.joined = make(chan struct{})
	k.mu.Lock()
	k.timer = time.AfterFunc(max(k.win.left(k.clock.read()), 0), k.expire)
	k.mu.Unlock()
	go k.renewals(ctx)
}

// wait stands in the queue until the claim is held.
func (k *keeper) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.mu.Lock()
	k.onEnd = func(error) { cancel() }
	lost, claim := k.err, k.claim
	k.mu.Unlock()
	defer k.deafen()
	if lost != nil {
		return lost
	}
	claim, err := k.backend.Wait(ctx, claim)
	if err == nil {
		err = k.won(claim)
	}
	if err == nil && k.joined != nil && k.remaining() < claim.TTL/2 {
		k.renew(ctx) // whoever waited through an outage starts with a new window, if it can be had
	}
	if lost := k.ending(); lost != nil {
		return lost
	}
	return err
}

// deafen lets the end of the claim go untold until somebody else wants to know.
func (k *keeper) deafen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onEnd = nil
}

// won takes in the claim that Wait returned.
func (k *keeper) won(claim Claim) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		if claim.Since.IsZero() {
			claim.TTL = k.claim.TTL // as the last renewal said
		} else {
			k.win = newWindow(k.clock.at(claim.Since), claim.TTL, k.cfg.drift)
			claim.Since = time.Time{}
		}
		k.claim = claim
	}
	return k.err
}

func (k *keeper) remaining() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.win.left(k.clock.read())
}

// held makes the claim a tenure. It fails when its window has closed on the way.
func (k *keeper) held(issuer string) error {
	k.mu.Lock()
	k.isHeld = true
	k.fence = Fence{Lock: k.claim.Name, Token: k.claim.Token, Issuer: issuer}
	now := k.clock.read()
	k.beat = now
	err := k.err
	left := k.win.left(now)
	if err == nil && left <= k.cfg.grace {
		err = k.lost(Expired, k.late)
	}
	if err == nil && k.timer != nil {
		k.timer.Reset(left - k.cfg.grace)
	}
	k.mu.Unlock()
	if err != nil {
		return err
	}
	close(k.holds)
	if k.joined == nil {
		k.start()
	}
	return nil
}

func (k *keeper) renewSoon() {
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

// check looks at the clock. It ends the claim when the window, less the grace of a held one, has closed.
func (k *keeper) check() (left time.Duration, err error) {
	k.mu.Lock()
	if k.err != nil {
		defer k.mu.Unlock()
		return 0, k.err
	}
	now := k.clock.read()
	left = k.win.left(now)
	if left > k.grace() {
		k.mu.Unlock()
		return left, nil
	}
	reason := Expired
	if k.silent(now) {
		reason = Silent
	}
	e := k.lost(reason, k.late)
	k.mu.Unlock()
	k.end(e)
	return 0, k.ending()
}

// expire is check by the timer, which starts again when the window has moved.
func (k *keeper) expire() {
	left, err := k.check()
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer.Reset(left - k.grace())
}

// extend moves the window after a renewal that was sent at sent, unless the claim has ended: it never revives.
func (k *keeper) extend(sent reading, ttl time.Duration) error {
	if _, err := k.check(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.late = nil
	if sent.mono < k.win.sent.mono { // overtaken by a later one
		return nil
	}
	k.claim.TTL = ttl
	k.win = newWindow(sent, ttl, k.cfg.drift)
	k.timer.Reset(max(k.win.left(k.clock.read())-k.grace(), 0))
	return nil
}

// end ends the claim with err, unless it has ended. Hooks hear of the loss of a held one.
func (k *keeper) end(err error) {
	k.mu.Lock()
	if k.err != nil {
		k.mu.Unlock()
		return
	}
	k.err = err
	if k.timer != nil {
		k.timer.Stop()
	}
	if k.stop != nil {
		k.stop()
	}
	if k.onEnd != nil {
		k.onEnd(err)
	}
	close(k.ended)
	tell := k.isHeld
	k.mu.Unlock()
	var lost *LostError
	if tell && errors.As(err, &lost) {
		k.cfg.lost(lost)
	}
}

func (k *keeper) ending() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// lost describes a loss now. mu is held.
func (k *keeper) lost(r Reason, cause error) *LostError {
	at := k.clock.now()
	return &LostError{Lock: k.claim.Name, Token: k.claim.Token, Reason: r, At: at, Until: at.Add(k.win.left(k.clock.read())), Cause: cause}
}

// lose ends the claim as lost.
func (k *keeper) lose(r Reason, cause error) {
	k.mu.Lock()
	e := k.lost(r, cause)
	k.mu.Unlock()
	k.end(e)
}

// grace of the claim in its present state. mu is held.
func (k *keeper) grace() time.Duration {
	if k.isHeld {
		return k.cfg.grace
	}
	return 0
}

// silent reports whether the worker's heartbeat is overdue. mu is held.
func (k *keeper) silent(now reading) bool {
	return k.isHeld && k.cfg.heartbeat > 0 && k.beat.elapsed(now) > k.cfg.heartbeat
}
