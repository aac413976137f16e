package lockclient

import (
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/tokens"
)

var (
	ErrNotAcquired = errors.New("lock not acquired") // joined with the reason: the context's error, a *HeldError, the backend's error
	ErrHeld        = errors.New("lock is held")      // what a *HeldError is
	ErrLost        = errors.New("lock is lost")      // what a *LostError is; from a backend: proof that the claim is gone
	ErrReleased    = errors.New("lock is released")  // Lease.Err after Release
	ErrUnavailable = errors.New("lock service is not available")
	ErrNested      = errors.New("lock is already held in this context") // would wait for itself
	ErrRegressed   = errors.New("token is not higher than the last one")
	ErrNotShared   = errors.New("backend has no shared locks")
)

// HeldError is the answer of TryLock when somebody else has the lock. Holder and Token are the zero value when the
// backend does not know, or when readers have it.
type HeldError struct {
	Lock string
	Leader
}

func (e *HeldError) Error() string {
	if e.Vacant() {
		return fmt.Sprintf("lock %q is held", e.Lock)
	}
	return fmt.Sprintf("lock %q is held by %s with token %s", e.Lock, e.Holder, e.Token)
}

func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Reason why a lease was lost.
type Reason string

const (
	Expired  Reason = "expired"  // the trust window closed before a renewal succeeded
	Gone     Reason = "gone"     // the backend proved that the claim does not exist any more
	Fenced   Reason = "fenced"   // MarkLost: the database rejected the token, or the application knows better
	Silent   Reason = "silent"   // the worker's heartbeat stopped and the window ran out
	Released Reason = "released" // found gone at release: it had ended before, unnoticed
)

// LostError says how a lease was lost. It is the cause of the lease context's cancellation.
type LostError struct {
	Lock   string
	Token  tokens.Token
	Reason Reason
	At     time.Time // when it was noticed
	Until  time.Time // end of the trust window: later than At by the grace when the window ran out
	Cause  error     // the last failure; nil when there was none
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("lock %q with token %s is lost: %s", e.Lock, e.Token, e.Reason)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

func (e *LostError) Is(target error) bool { return target == ErrLost }
func (e *LostError) Unwrap() error        { return e.Cause }
