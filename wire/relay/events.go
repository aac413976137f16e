package relay

import (
	"time"

	"go.uber.org/zap"
)

// EndReason says why a session ended. The set is closed: it is a label of metrics and a field of the log.
type EndReason uint8

const (
	EndNone          EndReason = iota
	EndClient                  // the client said Terminate or closed its side
	EndClientError             // the connection to the client broke
	EndServer                  // the server closed: a FATAL, a restart
	EndServerError             // the connection to the server broke
	EndLogin                   // either side closed before the session was ready: password, pg_hba, no such database
	EndLoginTimeout            // not ready within the login timeout
	EndRejected                // the engine refused the session, for example a stale token at startup
	EndProtocol                // a message that cannot be one
	EndDrained                 // shutdown, outside a transaction
	EndDrainDeadline           // shutdown, the deadline passed
	EndTenure                  // the proxy has lost the lock that it held for the session
	EndIdle                    // the client said nothing for longer than it may
	EndPanic                   // a bug in the proxy; only this session is closed
	endReasons
)

var endNames = [endReasons]string{"none", "client_closed", "client_error", "server_closed", "server_error", "login_failed",
	"login_timeout", "rejected", "protocol_violation", "drained", "drain_deadline", "tenure_over", "idle_timeout", "panic"}

func (r EndReason) String() string { return endNames[r] }

// RefuseReason says why a connection never became a session. A closed set as well.
type RefuseReason uint8

const (
	RefuseStartup     RefuseReason = iota // no startup packet that PostgreSQL would take
	RefuseSilent                          // none within the login timeout
	RefuseLimit                           // too many sessions
	RefuseFlood                           // too many connections that are not even sessions: closed without a word
	RefuseReplication                     // replication is not allowed
	RefuseUpstream                        // the upstream server cannot be reached
	RefuseDraining                        // shutting down
	RefuseTLS                             // a handshake that failed, no TLS, no certificate, or one that is not the server's
	RefuseNotHeld                         // the proxy does not hold the lock that it needs for the session
	RefuseToken                           // a token of the client's own, where the proxy gives it
	RefuseLogin                           // with auth scram: a wrong password, or PostgreSQL said no
	refuseReasons
)

var refuseNames = [refuseReasons]string{"startup", "silent", "limit", "flood", "replication", "upstream", "draining", "tls", "not_held", "own_token", "login"}

func (r RefuseReason) String() string { return refuseNames[r] }

// ServerEvents counts what the server does beside the statements of its sessions. Calls must be cheap, must not block,
// and may come from any goroutine.
type ServerEvents interface {
	SessionOpened()
	SessionClosed(reason EndReason, lasted time.Duration)
	Refused(reason RefuseReason)
	Dialed(took time.Duration, ok bool) // to the upstream server
	Canceled(relayed bool)              // a CancelRequest; false: over the limit, or upstream unreachable
	Panicked()
}

// SessionRecorder is a Recorder that makes another one for each session; log carries the session's fields.
type SessionRecorder interface {
	Recorder
	ForSession(log *zap.Logger) Recorder
}

// noEvents are the ServerEvents of a server that nobody counts.
type noEvents struct{}

func (noEvents) SessionOpened()                         {}
func (noEvents) SessionClosed(EndReason, time.Duration) {}
func (noEvents) Refused(RefuseReason)                   {}
func (noEvents) Dialed(time.Duration, bool)             {}
func (noEvents) Canceled(bool)                          {}
func (noEvents) Panicked()                              {}
