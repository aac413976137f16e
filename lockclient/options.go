package lockclient

import (
	"fmt"
	"log/slog"
	"time"
)

// Option sets how a lock is held: for all locks of a Client in New, for one in Lock, TryLock, Do and so on.
type Option func(*config)

type config struct {
	ttl        time.Duration
	grace      time.Duration
	drift      float64
	wait       time.Duration
	release    time.Duration
	holder     string
	adaptive   bool
	preemptive time.Duration
	heartbeat  time.Duration
	watchdog   func(reason string)
	exitAfter  time.Duration
	exit       func(code int)
	hooks      []Hooks
	log        *slog.Logger
	now        func() time.Time // tests: a clock that stops
	wall       func() time.Time
}

// Defaults. The TTL is how long others wait for a holder that died.
const (
	DefaultTTL     = 10 * time.Second
	DefaultDrift   = 0.01
	DefaultRelease = 5 * time.Second
	ExitLost       = 76 // exit code of WithExitOnLoss and WithWatchdog
)

// WithTTL sets after how long without a renewal the service may give the lock to another. A backend may grant more.
func WithTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// WithGrace cancels the lease's context d before the trust window closes, so that work has time to stop while the lock
// is still its own. 0 <= d <= TTL/2; default 0.
func WithGrace(d time.Duration) Option { return func(c *config) { c.grace = d } }

// WithDrift sets by which part of itself the TTL is shortened because two clocks do not run alike: 0 <= part < 0.5,
// default 0.01. Quartz differs by 0.0001 at most; a virtual machine that is starved of time may do worse.
func WithDrift(part float64) Option { return func(c *config) { c.drift = part } }

// WithWait bounds how long Lock waits, unlike a deadline on its context, which the lease's context would inherit.
func WithWait(d time.Duration) Option { return func(c *config) { c.wait = d } }

// WithReleaseTimeout bounds Release, default 5 s. A lock that could not be released in time ends with its TTL.
func WithReleaseTimeout(d time.Duration) Option { return func(c *config) { c.release = d } }

// WithHolder sets the name that others see. Default: host, process id and a random part. It is never compared: the same
// name in two processes is harmless.
func WithHolder(name string) Option { return func(c *config) { c.holder = name } }

// WithAdaptiveRenewal tries again faster the nearer the end of the window is, instead of at a steady pace.
func WithAdaptiveRenewal() Option { return func(c *config) { c.adaptive = true } }

// WithPreemptiveRenewal makes Check, which is called after slow work, ask for a renewal at once when less than d of the
// window is left. Check itself does not wait for it.
func WithPreemptiveRenewal(d time.Duration) Option { return func(c *config) { c.preemptive = d } }

// WithHeartbeat ties renewal to the worker: when Lease.Beat was not called for d, renewal stops, and the lock is lost at
// the end of the window. A process whose worker hangs would else hold the lock for ever.
func WithHeartbeat(d time.Duration) Option { return func(c *config) { c.heartbeat = d } }

// WithWatchdog ends the process when the client did not get to run, or its renewal did not answer, for half a TTL: after a
// stop, a swap storm or a hook that hangs. end is called with the reason; nil is a line on stderr and exit code ExitLost.
// A process that is stopped ends when it runs again, not before.
func WithWatchdog(end func(reason string)) Option {
	if end == nil {
		end = exitWatchdog
	}
	return func(c *config) { c.watchdog = end }
}

// WithExitOnLoss ends the process with ExitLost when a lost lease was not released, which says that its work has
// stopped, within d. For work that cannot be cancelled.
func WithExitOnLoss(d time.Duration) Option {
	return func(c *config) { c.exitAfter = max(d, 1) }
}

// WithHooks adds hooks; every set that was given is called.
func WithHooks(h Hooks) Option {
	return func(c *config) { c.hooks = append(c.hooks[:len(c.hooks):len(c.hooks)], h) }
}

// WithLogger logs what hooks report: losses as warnings, failed renewals as info, the rest as debug.
func WithLogger(log *slog.Logger) Option { return func(c *config) { c.log = log } }

func (c config) check(b Capabilities) error {
	switch {
	case c.ttl <= 0:
		return fmt.Errorf("TTL %v is not positive", c.ttl)
	case c.ttl < b.MinTTL:
		return fmt.Errorf("TTL %v is below the minimum of %s, %v", c.ttl, b.Issuer, b.MinTTL)
	case c.grace < 0 || c.grace > c.ttl/2:
		return fmt.Errorf("grace %v is not between 0 and half the TTL, %v", c.grace, c.ttl/2)
	case !(c.drift >= 0 && c.drift < 0.5):
		return fmt.Errorf("drift %v is not between 0 and 0.5", c.drift)
	case c.release <= 0:
		return fmt.Errorf("release timeout %v is not positive", c.release)
	}
	return nil
}
