package relay

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// Announcer raises tokens. Announce returns when ctx ends, while the raise itself goes on.
type Announcer interface {
	Announce(ctx context.Context, s tokens.Session, l tokens.List) ([]tokens.Mark, *tokens.Error)
}

// machine is what the driver needs of an Engine.
type machine interface {
	FromClient(in []byte, out *Output) (n int, err error)
	FromServer(in []byte, out *Output) error
	Announced(marks []tokens.Mark, err *tokens.Error, out *Output)
	InTransaction() bool
	Ready() bool
}

// session is one client, one server connection and the engine between them, driven by two goroutines:
//
//	clientPump   reads the client, is the only one to write to the server
//	serverPump   reads the server, writes to the client
//
// Neither ever waits for the other's socket, so a peer that stops reading stops only the peer that feeds it. What the
// server's replies make the engine send to the server (a question, a message that was held) is left in pending for the
// client pump, which is woken up for it: the server pump must not write to a server that may be waiting for it to read.
type session struct {
	client, server net.Conn
	log            *zap.Logger
	rec            Recorder
	events         ServerEvents
	announcer      Announcer
	ctx            context.Context // ends with the session
	cancel         context.CancelFunc
	work           sync.WaitGroup // server pump and announcements

	mu        sync.Mutex // serialises the engine; never held while writing, but see clientMu
	engine    machine
	inside    bool // a call of the engine is under way, or panicked
	paused    bool // the engine wants no client bytes
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
	reason   atomic.Uint32 // EndReason, the first one stays
	said     atomic.Bool   // the client sent Terminate
	toServer atomic.Int64  // bytes
	toClient atomic.Int64
}

// stop is why a session is to be ended by the proxy, and what the client is told.
type stop struct {
	reason EndReason
	words  *wire.Error // nil: nothing, or the engine has told it
	urgent bool        // the session may be in the middle of something: the server connection is cut, not ended
}

// stopTime is how long a stopped session may take to say its last words before both connections are closed.
const stopTime = 3 * time.Second

// start gives the session its context and channels.
func (s *session) start(ctx context.Context) {
	s.bell, s.gone = make(chan struct{}, 1), make(chan struct{})
	s.ctx, s.cancel = context.WithCancel(ctx)
}

// run relays until the session is over. Both connections are closed then and no goroutine is left.
func (s *session) run() EndReason {
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
	return EndReason(s.reason.Load())
}

// end notes why the session ends; the first reason stays.
func (s *session) end(r EndReason) {
	s.reason.CompareAndSwap(uint32(EndNone), uint32(r))
}

// closed notes which side has closed its connection. A client that is told that it may not log in and the server that
// has told it race to close, so before the session is ready it is one reason.
func (s *session) closed(r EndReason) {
	s.mu.Lock()
	ready := s.inside || s.engine.Ready()
	s.mu.Unlock()
	if !ready {
		r = EndLogin
	}
	s.end(r)
}

func (s *session) closeBoth() {
	s.client.Close()
	s.server.Close()
}

// stop asks the client pump to end the session. It does not wait, for a lock neither.
func (s *session) stop(st *stop) {
	if !s.stopping.CompareAndSwap(nil, st) {
		return
	}
	s.end(st.reason)
	s.hardEnd.Store(time.AfterFunc(stopTime, s.closeBoth))
	s.client.SetWriteDeadline(time.Now().Add(lingerTime)) // also ends a write under way to a client that does not read
	s.wake()
}

// wake makes the client pump look at what was left for it. What it is to see must be there before.
func (s *session) wake() {
	s.mail.Store(true)
	select {
	case s.bell <- struct{}{}:
	default:
	}
	s.client.SetReadDeadline(time.Unix(1, 0))
}

// recovered ends the session after a panic, which must not take the other sessions with it. Calls of the engine are
// refused from now on: its state may be half changed.
func (s *session) recovered() {
	r := recover()
	if r == nil {
		return
	}
	s.end(EndPanic)
	s.events.Panicked()
	s.log.Error("session panicked", panicField(r), zap.ByteString("stack", debug.Stack()))
	s.closeBoth()
}

// panicField says what the runtime says. Of other panics only the type: they may quote what the session was working on.
func panicField(r any) zap.Field {
	if err, ok := r.(runtime.Error); ok {
		return zap.String("panic", err.Error())
	}
	return zap.String("panic", fmt.Sprintf("%T", r))
}
