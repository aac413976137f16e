package relay

import (
	"context"
	"math"

	"github.com/fenceproxy/fenceproxy/wire"
)

// tenant is a running session with what the server has to know of it.
type tenant struct {
	runner
	session    *session
	generation uint64
	idle       idleClock
}

// forever is the generation of sessions that no change of fences concerns.
const forever = math.MaxUint64

// enroll gives the configuration for a session that begins now, and counts it: whoever replaces the current one can wait
// for those that began before.
func (s *Server) enroll(start *wire.Startup, pooled bool, tenure *Tenure) *Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	cfg := s.cfg.Current()
	physical, ours := start.Replication() == wire.ReplicationPhysical, s.cfg.Holder != nil
	walsender := start.Replication() == wire.ReplicationDatabase
	readOnly := tenure != nil && tenure.ReadOnly
	if cfg.Pooled != pooled || cfg.TokenIsOurs != ours || physical || walsender || readOnly {
		c := *cfg
		if readOnly {
			c.Tokenless = TokenlessReadOnly
		}
		c.Pooled, c.TokenIsOurs, c.Walsender = pooled, ours, walsender
		if physical { // it carries no SQL that could write
			c.Mode, c.Generation = ModeOff, forever
		}
		cfg = &c
	}
	s.enrolled[cfg.Generation]++
	return cfg
}

// discharge: a session that was enrolled is over, at the server too.
func (s *Server) discharge(cfg *Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.enrolled[cfg.Generation]--; s.enrolled[cfg.Generation] == 0 {
		delete(s.enrolled, cfg.Generation)
	}
	s.discharged.Broadcast()
}

// Old is the number of sessions that run under a Config of a lower Generation than the current one.
func (s *Server) Old() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.older(s.cfg.Current().Generation)
}

func (s *Server) older(generation uint64) (n int) {
	for g, count := range s.enrolled {
		if g < generation {
			n += count
		}
	}
	return n
}

// Retire ends the sessions that run under a Config of a lower Generation than the current one: those outside a transaction
// at once, the others when their transaction ends, and when ctx ends those that are left. It returns when none is left,
// with the number of sessions that it had to cut off.
func (s *Server) Retire(ctx context.Context) (cut int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.cfg.Current().Generation
	s.oldest = max(s.oldest, current)
	for t := range s.running {
		if t.generation < current {
			t.drain()
		}
	}
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.discharged.Broadcast()
	})
	defer stop()
	for s.older(current) > 0 && ctx.Err() == nil {
		s.discharged.Wait()
	}
	if s.older(current) == 0 {
		return 0
	}
	s.cutoff = max(s.cutoff, current)
	for t := range s.running {
		if t.generation < current {
			t.kill(tooLate)
			cut++
		}
	}
	for s.older(current) > 0 {
		s.discharged.Wait()
	}
	return cut
}
