package admin

import (
	"context"
	"sync"
	"time"
)

const (
	// goodFor is how long a control connection that answered counts as good, so that probes cost the database little.
	goodFor = 3 * time.Second
	// pingLimit is shorter than the usual timeout of a probe, so that the answer says why.
	pingLimit = 800 * time.Millisecond
)

// Readiness says whether new sessions should be sent here. Safe for concurrent use.
type Readiness struct {
	mu        sync.Mutex
	listening bool
	draining  bool
	ping      func(context.Context) error // nil: no control connection is needed
	lastGood  time.Time
	lastErr   error
	held      func() bool     // nil: no lock is to be held
	changed   func(err error) // told when the answer of a ping becomes another; may be nil
	pinging   chan struct{}   // not nil while a ping runs; closed at its end
}

// NewReadiness begins not ready. ping asks the control connection; nil when the mode needs none. changed, which may be
// nil, is told when pings begin to fail or fail in another way, and with nil when they succeed again.
func NewReadiness(ping func(context.Context) error, changed func(err error)) *Readiness {
	return &Readiness{ping: ping, changed: changed}
}

// Listening says that all listeners are open.
func (r *Readiness) Listening() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listening = true
}

// Holding adds a condition: f says whether the lock is held.
func (r *Readiness) Holding(f func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = f
}

// Drain makes it not ready for good.
func (r *Readiness) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// Check gives the reasons against readiness; none means ready.
func (r *Readiness) Check(ctx context.Context) []string {
	r.mu.Lock()
	listening, draining, held := r.listening, r.draining, r.held
	r.mu.Unlock()
	var reasons []string
	if !listening {
		reasons = append(reasons, "listeners are not open yet")
	}
	if draining {
		// Nobody should wait for a ping to learn this.
		return append(reasons, "draining: no new sessions")
	}
	if held != nil && !held() {
		reasons = append(reasons, "the lock is held by another instance, or not at all")
	}
	if reason := r.control(ctx); reason != "" {
		reasons = append(reasons, reason)
	}
	return reasons
}

// control pings, one at a time however many ask.
func (r *Readiness) control(ctx context.Context) string {
	r.mu.Lock()
	if r.ping == nil || time.Since(r.lastGood) < goodFor {
		r.mu.Unlock()
		return ""
	}
	done := r.pinging
	if done == nil {
		done = make(chan struct{})
		r.pinging = done
		go r.pingOnce(done)
	}
	r.mu.Unlock()
	timer := time.NewTimer(pingLimit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		return "the control connection does not answer"
	case <-ctx.Done():
		return "the control connection does not answer"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastErr != nil {
		// Its text may name hosts and users; the log has it.
		return "the control connection fails"
	}
	return ""
}

func (r *Readiness) pingOnce(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*pingLimit)
	defer cancel()
	err := r.ping(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != nil && message(err) != message(r.lastErr) {
		r.changed(err)
	}
	if r.lastErr = err; err == nil {
		r.lastGood = time.Now()
	}
	r.pinging = nil
	close(done)
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
