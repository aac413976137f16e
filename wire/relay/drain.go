package relay

import (
	"context"

	"go.uber.org/zap"
)

// shuttingDown is what PostgreSQL says at a fast shutdown.
var shuttingDown = fatalError("57P01", "terminating connection due to administrator command", "")

var tooLate = &stop{reason: EndDrainDeadline, words: shuttingDown, urgent: true}

// Shutdown stops to accept and ends the sessions: those outside a transaction at once, the others when their transaction
// ends, and when ctx ends those that are left. It returns when none is left, with ctx's error if it had to cut some off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.lastCall()
	s.mu.Lock()
	s.draining = true
	s.refuseNew()
	for _, l := range s.listeners {
		l.Close()
	}
	for ses := range s.running {
		ses.drain()
	}
	s.mu.Unlock()

	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.Close()
		return nil
	case <-ctx.Done():
	}
	s.log.Warn("closing sessions that are in a transaction", zap.Int("sessions", s.Sessions()))
	s.Close()
	return ctx.Err()
}

// Close ends everything at once and waits until it is gone.
func (s *Server) Close() {
	s.mu.Lock()
	s.draining, s.closed = true, true
	for _, l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.Close()
	}
	for ses := range s.running {
		ses.kill(tooLate)
	}
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	s.loops.close()
}
