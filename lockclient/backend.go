package lockclient

import (
	"context"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// Backend is a lock service. It only carries requests: how long a lock may be trusted, when it is renewed and when it
// counts as lost is the Client's business, the same for every backend. All methods may be called concurrently and
// return soon after their context ends.
//
// Errors have three meanings. ErrLost: proof that the claim is gone. ErrUnavailable: the service could not be asked,
// asking again is sensible. Anything else is for good: wrong credentials, a wrong name, a missing table.
type Backend interface {
	// Request asks for a lock in one short exchange. The claim is held at once, or it queues when req.Queue is set;
	// without Queue a lock that somebody else has is a *HeldError. An error leaves nothing behind that outlives the TTL.
	Request(ctx context.Context, req Request) (Claim, error)

	// Wait returns when a queued claim is held: verified, and with its token. It outlives reconnects, compactions and
	// elections; ErrLost when the claim left the queue otherwise. The client renews the claim meanwhile.
	Wait(ctx context.Context, c Claim) (Claim, error)

	// Renew extends a claim, queued or held, and returns for how long, counted from when Renew was called. For a held
	// claim it is proof too: nil means that the lock was held after the call began. It never creates a claim anew.
	Renew(ctx context.Context, c Claim) (time.Duration, error)

	// Release gives up exactly this claim, compared by what makes it unique, never by name. ErrLost when it was gone.
	Release(ctx context.Context, c Claim) error

	// Observe calls yield with the present holder of the exclusive lock, vacancy included, and then with each change,
	// until yield returns false (nil) or something fails. A state that lasts shorter than a round trip may be skipped.
	Observe(ctx context.Context, name string, yield func(Leader) bool) error

	Capabilities() Capabilities

	// Close ends connections and background work. Claims are not released.
	Close() error
}

// LossWatcher is what a backend has that can tell the end of a held claim without being asked.
type LossWatcher interface {
	// WatchLoss returns ErrLost once the claim is gone, any other error when it cannot watch at the moment.
	WatchLoss(ctx context.Context, c Claim) error
}

// Connected is what a backend has whose claims live on a connection each and end with it.
type Connected interface {
	// Connection of a held claim. The connection remains the backend's: only its descriptor may be looked at, and copied.
	Connection(c Claim) syscall.Conn
}

// Request is what a Client asks of a Backend.
type Request struct {
	Name   string        // passes tokens.ValidName
	Mode   Mode          // Shared only if Capabilities().Shared
	TTL    time.Duration // at least Capabilities().MinTTL; the backend may grant more
	Holder string        // shown to others, never compared
	Queue  bool
}

// Claim is one tenure of a lock, or the place in the queue that becomes one. A value: the client passes back what it got.
type Claim struct {
	Name  string
	Mode  Mode
	Held  bool
	Token tokens.Token // of a held claim, fixed for the tenure

	// TTL is the time after which the service may take the claim away when nothing extends it. Above 0 in a held
	// claim; 0 in a queued one means that there is nothing to renew while it waits.
	TTL time.Duration

	// Since is when the request that started TTL was sent, as time.Now() gave it. The zero value means: when the
	// client called Request, or, after Wait, the last renewal. Wait must set it for a claim that queued without a TTL.
	Since time.Time

	Ref any // the backend's own
}

// Mode of a lock.
type Mode uint8

const (
	Exclusive Mode = iota
	Shared         // any number of readers, no writer
)

func (m Mode) String() string {
	if m == Shared {
		return "shared"
	}
	return "exclusive"
}

// TokenClass says how far the tokens of a backend can be trusted to rise.
type TokenClass uint8

const (
	BestEffort TokenClass = iota // two holders may have one token, or tokens out of order
	Regressing                   // rises, until the service fails over, restarts or loses memory
	Strict                       // rises from tenure to tenure for as long as the service's history is one
)

func (c TokenClass) String() string { return [...]string{"best effort", "regressing", "strict"}[c] }

// Capabilities of a backend, fixed while it is open.
type Capabilities struct {
	Issuer       string        // names the origin of tokens, e.g. "etcd/cdf818194e3a8c32"; tokens of one issuer are comparable
	Token        TokenClass    // of exclusive locks
	FIFO         bool          // the queue is served in the order of arrival
	Shared       bool          // RLock works
	MinTTL       time.Duration // the smallest TTL that may be asked for
	SessionBound bool          // the lock ends with a connection, which no TTL bounds: only the fence protects
}

// Leader is the holder of a lock as others see it. The zero Leader is vacancy.
type Leader struct {
	Holder string
	Token  tokens.Token
	Since  time.Time // when it took over, or, for one found at the start, when it asked for the lock by its own clock
}

// Vacant reports whether nobody holds the lock.
func (l Leader) Vacant() bool { return l == Leader{} }
