package relay

import (
	"time"

	"github.com/fenceproxy/fenceproxy/wire"
)

// idleClock notices that nothing was said in a session, from the outside: the hot path pays nothing for it.
type idleClock struct {
	said  int64 // bytes both ways, at the last look
	since time.Time
}

// Idle reports whether the server waits for the client, and whether it does so inside a transaction.
func (e *Engine) Idle() (idle, inTransaction bool) {
	inTransaction = e.tx.state != wire.TxIdle
	if e.cfg.Mode == ModeOff {
		return e.phase == phaseReady && e.syncs == 0 && !e.passed && e.client.rest == 0 && len(e.client.held) == 0, inTransaction
	}
	return e.phase == phaseReady && e.slots.front() == nil && e.pause == pauseNone && !e.client.partial(), inTransaction
}

var (
	idleSession       = &stop{reason: EndIdle, words: fatalError("57P05", "terminating connection due to idle-session timeout", "")}
	idleInTransaction = &stop{reason: EndIdle, words: fatalError("25P03", "terminating connection due to idle-in-transaction timeout", "")}
)

// sweeps looks after idle sessions until the server is closed.
func (s *Server) sweeps() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(s.sweep(time.Now()))
	}
}

// The pause between two sweeps: a session is ended at most so much later than it should.
const (
	shortestSweep = 10 * time.Millisecond
	longestSweep  = time.Second
)

// sweep ends the sessions whose client has said nothing for too long, and returns when to do that again.
func (s *Server) sweep(now time.Time) (pause time.Duration) {
	pause = longestSweep
	var late []*tenant
	s.mu.Lock()
	for t := range s.running {
		limit := t.session.shortestIdle()
		if limit == 0 {
			continue
		}
		pause = min(pause, max(limit/8, shortestSweep))
		if said := t.session.said(); said != t.idle.said || t.idle.since.IsZero() {
			t.idle = idleClock{said, now}
		} else if now.Sub(t.idle.since) >= limit {
			late = append(late, t)
		}
	}
	s.mu.Unlock()
	for _, t := range late {
		said, lasted := t.idle.said, now.Sub(t.idle.since)
		t.stopIf(func() *stop { return t.session.tooIdle(said, lasted) })
	}
	return pause
}

func (s *session) said() int64 { return s.toServer.Load() + s.toClient.Load() }

// shortestIdle is the shorter of the two limits, 0 for none.
func (s *session) shortestIdle() time.Duration {
	outside, inside := s.idle.Outside, s.idle.Inside
	if outside == 0 || inside > 0 && inside < outside {
		return inside
	}
	return outside
}

// tooIdle is called where the engine may be looked at, with what had been said when nothing had been for so long.
func (s *session) tooIdle(said int64, lasted time.Duration) *stop {
	e, ok := s.engine.(interface {
		Idle() (idle, inTransaction bool)
	})
	if !ok || s.said() != said {
		return nil
	}
	idle, inside := e.Idle()
	switch {
	case !idle:
	case inside && s.idle.Inside > 0 && lasted >= s.idle.Inside:
		return idleInTransaction
	case !inside && s.idle.Outside > 0 && lasted >= s.idle.Outside:
		return idleSession
	}
	return nil
}

func (s *pumps) stopIf(decide func() *stop) {
	s.mu.Lock()
	if s.inside {
		s.mu.Unlock()
		return
	}
	st := decide()
	s.mu.Unlock()
	if st != nil {
		s.stop(st)
	}
}
