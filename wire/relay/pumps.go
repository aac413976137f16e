package relay

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// pumps is the driver that works with any connection, TLS too: two goroutines for each session.
//
//	clientPump   reads the client, is the only one to write to the server
//	serverPump   reads the server, writes to the client
//
// Neither ever waits for the other's socket, so a peer that stops reading stops only the peer that feeds it. What the
// server's replies make the engine send to the server (a question, a message that was held) is left in pending for the
// client pump, which is woken up for it: the server pump must not write to a server that may be waiting for it to read.
type pumps struct {
	*session
	client, server net.Conn

	mu        sync.Mutex // serialises the engine; never held while writing, but see clientMu
	inside    bool       // a call of the engine is under way, or panicked
	paused    bool       // the engine wants no client bytes
	pending   []byte
	announces context.CancelFunc // ends the announcement under way
	left      bool               // the client has closed: it waits for no announcement

	// clientMu is held for a write to the client. It is taken while mu is held, so that writes keep the order in which
	// the engine made them; its holder never waits for mu.
	clientMu sync.Mutex
	muted    bool // the client had its last words; guarded by clientMu

	mail     atomic.Bool   // something for the client pump: pending, resumed, stopping, draining, server gone
	bell     chan struct{} // rung with mail, for a client pump that cannot read
	stopping atomic.Pointer[stop]
	draining atomic.Bool
	quiet    atomic.Bool   // the last that the server said was ReadyForQuery
	gone     chan struct{} // closed when the server pump has ended
	hardEnd  atomic.Pointer[time.Timer]
	said     atomic.Bool // the client sent Terminate
}

// newPumps takes over the two connections.
func newPumps(s *session, client, server net.Conn) *pumps {
	return &pumps{session: s, client: client, server: server, bell: make(chan struct{}, 1), gone: make(chan struct{})}
}

func (s *pumps) run() EndReason {
	s.work.Add(1)
	go s.serverPump()
	s.clientPump()
	<-s.gone
	s.closeBoth()
	s.cancel()
	s.work.Wait()
	if timer := s.hardEnd.Load(); timer != nil {
		timer.Stop()
	}
	return s.why()
}

// closed notes which side has closed its connection.
func (s *pumps) closed(r EndReason) {
	s.mu.Lock()
	ready := s.inside || s.engine.Ready()
	s.mu.Unlock()
	s.session.closed(r, ready)
}

func (s *pumps) closeBoth() {
	s.client.Close()
	s.server.Close()
}

// stop asks the client pump to end the session. It does not wait, for a lock neither.
func (s *pumps) stop(st *stop) {
	if !s.stopping.CompareAndSwap(nil, st) {
		return
	}
	s.end(st.reason)
	s.hardEnd.Store(time.AfterFunc(stopTime, s.closeBoth))
	s.client.SetWriteDeadline(time.Now().Add(lingerTime)) // also ends a write under way to a client that does not read
	s.wake()
}

// wake makes the client pump look at what was left for it. What it is to see must be there before.
func (s *pumps) wake() {
	s.mail.Store(true)
	select {
	case s.bell <- struct{}{}:
	default:
	}
	s.client.SetReadDeadline(time.Unix(1, 0))
}

// recovered ends the session after a panic, which must not take the other sessions with it. Calls of the engine are
// refused from now on: its state may be half changed.
func (s *pumps) recovered() {
	r := recover()
	if r == nil {
		return
	}
	s.panicked(r)
	s.closeBoth()
}

// drain lets the session end when it is outside a transaction. The client pump looks.
func (s *pumps) drain() {
	s.draining.Store(true)
	s.wake()
}

func (s *pumps) kill(why *stop) {
	s.end(why.reason)
	if !s.quiet.Load() {
		s.closeBoth()
		return
	}
	s.stop(why)
}

func (s *pumps) loginExpired() {
	s.mu.Lock()
	ready := s.engine.Ready()
	s.mu.Unlock()
	if !ready {
		s.stop(loginTimeout)
	}
}
