package relay

import (
	"context"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// Holder holds a lock for the clients of a Server, which know nothing of it.
type Holder interface {
	// Enter is asked for each session before it begins. It may wait until ctx ends, which it does when the client goes
	// away. The error is what the client is told instead.
	Enter(ctx context.Context) (*Tenure, *wire.Error)
	// Fenced tells that the database takes the token of t for stale: somebody else holds the lock, or an operator has
	// raised the mark. It must not block.
	Fenced(t *Tenure)
}

// Tenure is what a session begins under. Immutable.
type Tenure struct {
	// Token is the session's fence.token; "" for none. The client cannot assign it.
	Token string
	// ReadOnly: the session cannot write (TokenlessReadOnly). It begins with default_transaction_read_only too, which drivers
	// look at.
	ReadOnly bool
	// Over ends the session, wherever it stands: what it has not committed is rolled back.
	Over context.Context
	// Words are the client's then, if there is a place for them in what it is being told.
	Words *wire.Error
}

// enter gets a session its tenure, and its startup packet the settings of it.
func (s *Server) enter(l *clientLeg, start *wire.Startup) (*Tenure, *refused) {
	if _, given := start.Setting("fence.token"); given {
		return nil, &refused{reason: RefuseToken, words: &wire.Error{Severity: "FATAL", Code: tokens.CodeNotAllowed,
			Message: "fence.token is set by fenceproxy here", Detail: "This proxy holds the lock for its clients (hold).",
			Hint: "Remove fence.token from the connection's parameters and options."}}
	}
	ctx, cancel := context.WithCancel(s.accepting)
	defer cancel()
	unwatch := whenGone(l.raw, cancel)
	t, words := s.cfg.Holder.Enter(ctx)
	unwatch()
	if words != nil {
		return nil, &refused{reason: RefuseNotHeld, words: words}
	}
	if t.Token != "" {
		*start = start.With("fence.token", t.Token)
	}
	if t.ReadOnly {
		*start = start.With("default_transaction_read_only", "on")
	}
	return t, nil
}

// follow ends the session with its tenure. Call the function that is returned when the session is over.
func (t *Tenure) follow(r runner, log *zap.Logger) (unfollow func() bool) {
	return context.AfterFunc(t.Over, func() {
		log.Info("the tenure is over", zap.Error(t.Words))
		r.kill(&stop{reason: EndTenure, words: t.Words, urgent: true})
	})
}

// tenureRecorder passes on what may say that the tenure is over. The client's assignments of a token are refused, so a stale
// one is nearly always ours.
type tenureRecorder struct {
	Recorder
	holder Holder
	tenure *Tenure
}

func (r tenureRecorder) Rejected(code, fence string, by By) {
	r.Recorder.Rejected(code, fence, by)
	if code == tokens.CodeStale && by != ByRow {
		r.holder.Fenced(r.tenure)
	}
}

// whenGone calls f when the client closes its connection. It reads nothing away; a client that has sent something is not
// watched. The function that is returned ends the watch.
func whenGone(c net.Conn, f func()) (unwatch func()) {
	done := make(chan struct{})
	c.SetReadDeadline(time.Time{})
	go func() {
		defer close(done)
		if closed(c) {
			f()
		}
	}()
	return func() {
		c.SetReadDeadline(time.Unix(1, 0))
		<-done
		c.SetReadDeadline(time.Time{})
	}
}
