package relay

import (
	"context"
	"fmt"
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
	Long(in []byte) bool
	InTransaction() bool
	Ready() bool
}

// session is one client, one server connection and the engine between them, as far as it is the same for every driver.
type session struct {
	log       *zap.Logger
	rec       Recorder
	events    ServerEvents
	announcer Announcer
	judge     Judge           // may be nil
	ctx       context.Context // ends with the session
	cancel    context.CancelFunc
	work      sync.WaitGroup // goroutines of the session
	engine    machine
	idle      IdleLimits
	reason    atomic.Uint32   // EndReason, the first one stays
	parted    func()          // called when nothing of the session is left at the server; may be called again
	life      context.Context // of what may outlast the session
	toServer  atomic.Int64    // bytes
	toClient  atomic.Int64
}

// runner is a session in a driver. All but run may be called from any goroutine, and do not wait.
type runner interface {
	// run relays until the session is over. Both connections are closed then and no goroutine is left.
	run() EndReason
	// drain ends the session when it is outside a transaction.
	drain()
	// kill ends the session now. Last words would be lost in the middle of a reply, so they are said only when the server
	// is quiet: the session is idle, perhaps in a transaction, or waits for the first word of a reply.
	kill(why *stop)
	// loginExpired ends a session that is not ready yet.
	loginExpired()
	// stopIf ends the session if decide, called where the engine is not at work, says why.
	stopIf(decide func() *stop)
}

func (s *session) start(ctx context.Context) { s.ctx, s.cancel = context.WithCancel(ctx) }

func (s *session) why() EndReason { return EndReason(s.reason.Load()) }

// end notes why the session ends; the first reason stays.
func (s *session) end(r EndReason) {
	s.reason.CompareAndSwap(uint32(EndNone), uint32(r))
}

// closed notes which side has closed its connection. A client that is told that it may not log in and the server that
// has told it race to close, so before the session is ready it is one reason.
func (s *session) closed(r EndReason, ready bool) {
	if !ready {
		r = EndLogin
	}
	s.end(r)
}

// panicked notes a panic, which must not take the other sessions with it.
func (s *session) panicked(r any) {
	s.end(EndPanic)
	s.events.Panicked()
	s.log.Error("session panicked", panicField(r), zap.ByteString("stack", debug.Stack()))
}

// stop is why a session is to be ended by the proxy, and what the client is told.
type stop struct {
	reason EndReason
	words  *wire.Error // nil: nothing, or the engine has told it
	urgent bool        // the session may be in the middle of something: the server connection is cut, not ended
}

// leftTime is how long what a client has sent is held back for the server after the client has gone.
const leftTime = 5 * time.Second

// stopTime is how long a stopped session may take to say its last words before both connections are closed.
const stopTime = 3 * time.Second

var loginTimeout = &stop{reason: EndLoginTimeout, urgent: true, words: fatalError("57014", "canceling authentication due to timeout", "")}

// panicField says what the runtime says. Of other panics only the type: they may quote what the session was working on.
func panicField(r any) zap.Field {
	if err, ok := r.(runtime.Error); ok {
		return zap.String("panic", err.Error())
	}
	return zap.String("panic", fmt.Sprintf("%T", r))
}
