package lockclient

import (
	"log/slog"
	"time"
)

// Hooks report what happens to leases: for metrics and logs. Each may be nil. They are called from several goroutines
// and must not block: a hook that hangs stops the renewal of its lock, never its loss.
type Hooks struct {
	Acquired    func(f Fence, m Mode, waited time.Duration)
	Renewed     func(f Fence, took, left time.Duration) // left of the window before
	RenewFailed func(f Fence, err error, left time.Duration)
	Lost        func(e *LostError)
	Released    func(f Fence, held time.Duration, err error) // once for each Acquired; held until Release began
	Requeued    func(lock string, err error)                 // a place in the queue was lost; Lock starts again
	Regressed   func(f Fence, last string)                   // the backend gave a token not above the last one seen here
}

func (c *config) acquired(f Fence, m Mode, waited time.Duration) {
	for _, h := range c.hooks {
		if h.Acquired != nil {
			h.Acquired(f, m, waited)
		}
	}
}

func (c *config) renewed(f Fence, took, left time.Duration) {
	for _, h := range c.hooks {
		if h.Renewed != nil {
			h.Renewed(f, took, left)
		}
	}
}

func (c *config) renewFailed(f Fence, err error, left time.Duration) {
	for _, h := range c.hooks {
		if h.RenewFailed != nil {
			h.RenewFailed(f, err, left)
		}
	}
}

func (c *config) lost(e *LostError) {
	for _, h := range c.hooks {
		if h.Lost != nil {
			h.Lost(e)
		}
	}
}

func (c *config) released(f Fence, held time.Duration, err error) {
	for _, h := range c.hooks {
		if h.Released != nil {
			h.Released(f, held, err)
		}
	}
}

func (c *config) requeued(lock string, err error) {
	for _, h := range c.hooks {
		if h.Requeued != nil {
			h.Requeued(lock, err)
		}
	}
}

func (c *config) regressed(f Fence, last string) {
	for _, h := range c.hooks {
		if h.Regressed != nil {
			h.Regressed(f, last)
		}
	}
}

// logHooks are the hooks that log.
func logHooks(log *slog.Logger) Hooks {
	attrs := func(f Fence) []any { return []any{"lock", f.Lock, "token", f.Token.String()} }
	return Hooks{
		Acquired: func(f Fence, m Mode, waited time.Duration) {
			log.Debug("lock acquired", append(attrs(f), "mode", m.String(), "waited", waited)...)
		},
		RenewFailed: func(f Fence, err error, left time.Duration) {
			log.Info("lock renewal failed", append(attrs(f), "error", err, "left", left)...)
		},
		Lost: func(e *LostError) {
			log.Warn("lock lost", "lock", e.Lock, "token", e.Token.String(), "reason", string(e.Reason), "cause", e.Cause)
		},
		Released: func(f Fence, held time.Duration, err error) {
			log.Debug("lock released", append(attrs(f), "held", held, "error", err)...)
		},
		Requeued: func(lock string, err error) { log.Info("place in the lock's queue lost", "lock", lock, "error", err) },
		Regressed: func(f Fence, last string) {
			log.Error("lock service gave a token that is not higher than the last one", append(attrs(f), "last", last)...)
		},
	}
}
