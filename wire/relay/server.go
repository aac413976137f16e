package relay

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/wire"
)

// ServerConfig is what a Server is made of. Current and Upstream are required.
type ServerConfig struct {
	// Current gives the configuration that a session accepted now runs under to its end. Pooled is set by the listener. It
	// must not block, and its Generation must not fall.
	Current  func() *Config
	Upstream Upstream
	// ClientTLS is TLS with clients; nil offers none.
	ClientTLS *ClientTLS
	// Verifiers has clients log in to the proxy, with SCRAM-SHA-256, and the proxy to the server with their keys; nil
	// relays logins.
	Verifiers Verifiers
	// Holder holds the lock for clients that present no token themselves; nil leaves tokens to the clients.
	Holder Holder
	// Announcer raises tokens; nil refuses to (ZF005).
	Announcer Announcer
	Recorder  Recorder     // nil counts nothing; a SessionRecorder is asked for one per session
	Events    ServerEvents // nil counts nothing
	Log       *zap.Logger  // nil logs nothing
	Limits                 // at the start
	// ReusePort lets several processes of one user listen on the same addresses, so that a new one can take over.
	ReusePort bool
	// Loops is the number of event loops, which run the sessions without TLS where the platform has them; 0 means 1, a
	// negative number none. Each loop runs on one processor; one alone is cheapest as long as it is not busy all the time.
	Loops int
}

// Server accepts clients and runs their sessions. Its methods may be called concurrently, but Listen only before Serve.
type Server struct {
	cfg       ServerConfig
	log       *zap.Logger
	events    ServerEvents
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	newEngine func(*Config, Recorder, Startup) machine
	loops     loops
	relaying  atomic.Int64
	accepting context.Context // ends with Shutdown
	refuseNew context.CancelFunc

	listeners []listener
	sessions  limit
	strangers limit
	cancels   limit

	mu       sync.Mutex
	draining bool
	closed   bool
	conns    map[net.Conn]struct{} // clients that have no session (yet)
	running  map[*tenant]struct{}

	accepts    atomic.Int64 // listeners that accept
	limits     atomic.Pointer[Limits]
	enrolled   map[uint64]int // sessions by generation, those that log in included; under mu, as the rest
	discharged sync.Cond      // one of them has ended
	oldest     uint64         // sessions of lower generations end at the end of their transaction
	cutoff     uint64         // and those at once

	work sync.WaitGroup // everything that was accepted
}

// NewServer makes a server that does not listen yet.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Current == nil || cfg.Upstream.Address == "" {
		return nil, errors.New("relay: a server needs a configuration and an upstream")
	}
	if cfg.Recorder == nil {
		cfg.Recorder = discard{}
	}
	if cfg.Events == nil {
		cfg.Events = noEvents{}
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	s := &Server{cfg: cfg, log: cfg.Log, events: cfg.Events,
		conns: make(map[net.Conn]struct{}), running: make(map[*tenant]struct{}), enrolled: make(map[uint64]int),
		newEngine: func(c *Config, r Recorder, start Startup) machine { return NewEngine(c, r, start) }}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.accepting, s.refuseNew = context.WithCancel(s.ctx)
	s.loops.want = max(0, cfg.Loops)
	if cfg.Loops == 0 {
		s.loops.want = 1
	}
	s.discharged.L = &s.mu
	s.SetLimits(cfg.Limits)
	s.cancels.max.Store(maxCancels)
	return s, nil
}

// Sessions is the number of open sessions, those that log in included.
func (s *Server) Sessions() int { return int(s.sessions.open.Load()) }

// Relaying is the number of sessions that have not ended at the server. It is 0 before Shutdown returns: what is left
// then is to see the last words reach the clients.
func (s *Server) Relaying() int { return int(s.relaying.Load()) }

// serve is the life of one accepted connection.
func (s *Server) serve(client net.Conn, pooled bool) {
	defer s.work.Done()
	defer client.Close()
	defer func() {
		if r := recover(); r != nil {
			s.events.Panicked()
			s.log.Error("connection panicked", panicField(r), zap.ByteString("stack", debug.Stack()))
		}
	}()
	stranger := true
	defer func() {
		if stranger {
			s.strangers.leave()
			s.forget(client)
		}
	}()
	deadline := time.Now().Add(s.limits.Load().LoginTimeout)
	client.SetDeadline(deadline)

	l := &clientLeg{Conn: client, raw: client}
	defer func() { l.Close() }() // TLS has a last word
	start, err := s.readStartup(l)
	switch {
	case err != nil:
		s.refuseStartup(l, err)
		return
	case start.Kind == wire.StartupCancel:
		s.relayCancel(l, start)
		return
	}
	refusal := s.admit(l, &start)
	if refusal == nil && !s.sessions.enter() {
		refusal = &refused{reason: RefuseLimit, words: fatalError("53300", "sorry, too many clients already", "")}
	}
	if refusal != nil {
		s.refuse(l, refusal)
		return
	}
	defer s.sessions.leave()

	var tenure *Tenure
	if s.cfg.Holder != nil {
		if tenure, refusal = s.enter(l, &start); refusal != nil {
			s.refuse(l, refusal)
			return
		}
		deadline = time.Now().Add(s.limits.Load().LoginTimeout) // it may have waited
		client.SetDeadline(deadline)
	}
	ctx, done := context.WithDeadline(s.ctx, deadline)
	server, err := s.open(ctx, l, &start)
	done()
	if err != nil {
		s.events.Refused(RefuseUpstream)
		s.log.Error("cannot connect to upstream", zap.String("upstream", s.cfg.Upstream.Address), zap.Error(err))
		turnAway(l.Conn, unreachable(err))
		return
	}
	begun := false
	defer func() {
		if !begun { // else it is the session's, and may outlast it
			server.Close()
		}
	}()
	if s.cfg.Verifiers == nil {
		refusal = s.sameCertificate(l, server)
	} else {
		ctx, done := context.WithDeadline(s.accepting, deadline)
		refusal = s.authenticate(ctx, l, &server, &start)
		done()
	}
	if refusal != nil {
		s.refuse(l, refusal)
		return
	}
	cfg := s.enroll(&start, pooled, tenure)
	l.SetDeadline(time.Time{})
	server.SetDeadline(time.Time{})

	stranger = false
	s.strangers.leave()
	begun = true
	s.session(l, server, cfg, &start, deadline, tenure)
}

// refused is why a connection gets no session.
type refused struct {
	reason RefuseReason
	words  *wire.Error
	raw    []byte // the words as a message of the server's, if they are its
	why    string // for the log; "" when the words say all
}

var shuttingDownAtLogin = fatalError("57P03", "the database system is shutting down", "")

// admit decides whether the packet may begin a session.
func (s *Server) admit(l *clientLeg, start *wire.Startup) *refused {
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	if draining {
		return &refused{reason: RefuseDraining, words: shuttingDownAtLogin}
	}
	if refusal := s.admitLeg(l, start); refusal != nil {
		return refusal
	}
	replication := start.Replication()
	if (replication == wire.ReplicationPhysical || replication == wire.ReplicationDatabase) && !s.limits.Load().AllowReplication {
		return &refused{reason: RefuseReplication, words: fatalError("0A000", "replication connections are not allowed through fenceproxy",
			"Connect to the server directly, or allow them in the configuration of fenceproxy.")}
	}
	return nil
}

// refuse tells a client why it gets no session.
func (s *Server) refuse(l *clientLeg, r *refused) {
	s.events.Refused(r.reason)
	why := zap.Skip()
	if r.why != "" {
		why = zap.String("why", r.why)
	}
	s.log.Info("connection refused", zap.String("remote", remoteName(l.raw)), zap.Stringer("reason", r.reason), zap.Error(r.words), why)
	if r.raw != nil {
		turnAwayWith(l.Conn, r.raw)
		return
	}
	turnAway(l.Conn, r.words)
}

func (s *Server) refuseStartup(l *clientLeg, err error) {
	var words *wire.Error
	var handshake *handshakeError
	switch {
	case errors.As(err, &words):
		s.refuse(l, &refused{reason: RefuseStartup, words: words})
	case isTimeout(err): // as PostgreSQL, which says nothing here either
		s.events.Refused(RefuseSilent)
		s.log.Info("connection refused", zap.String("remote", remoteName(l.raw)), zap.Stringer("reason", RefuseSilent))
	case errors.As(err, &handshake):
		s.events.Refused(RefuseTLS)
		s.log.Info("connection refused", zap.String("remote", remoteName(l.raw)), zap.Stringer("reason", RefuseTLS), zap.Error(err))
	default: // closed without a word: port scans and health checks
	}
}

func (s *Server) dial(ctx context.Context, withTLS bool) (net.Conn, error) {
	begin := time.Now()
	c, err := s.cfg.Upstream.dial(ctx, withTLS)
	s.events.Dialed(time.Since(begin), err == nil)
	return c, err
}

// session runs one, with a line in the log at each end.
func (s *Server) session(client *clientLeg, server serverLeg, cfg *Config, start *wire.Startup, deadline time.Time, tenure *Tenure) {
	token, _ := start.Setting("fence.token")
	application, _ := start.Setting("application_name")
	about := Startup{Token: token, User: start.User(), Database: start.Database(), Application: application}
	log := s.log.With(zap.String("user", about.User), zap.String("database", about.Database),
		zap.String("application", application), zap.String("remote", remoteName(client.raw)))

	rec := s.cfg.Recorder
	if r, ok := rec.(SessionRecorder); ok {
		rec = r.ForSession(log)
	}
	if tenure != nil && tenure.Token != "" {
		rec = tenureRecorder{rec, s.cfg.Holder, tenure}
	}
	about.Remote = remoteName(client.raw)
	if d, ok := s.cfg.Recorder.(Decider); ok && d.Deciding() {
		about.Decider = d
	}
	if cfg.Judges != nil && cfg.Mode != ModeOff {
		about.Judge = cfg.Judges.Session(about.Database)
	}
	ses := &session{engine: s.newEngine(cfg, rec, about), log: log, rec: rec, events: s.events, announcer: cfg.Announcer, idle: cfg.Idle, judge: about.Judge}
	if ses.announcer == nil {
		ses.announcer = s.cfg.Announcer
	}
	ses.life = s.ctx
	ses.parted = sync.OnceFunc(func() {
		if about.Judge != nil {
			about.Judge.Leave()
		}
		s.relaying.Add(-1)
		s.discharge(cfg)
	})
	s.relaying.Add(1)
	ses.start(s.ctx)
	begin := time.Now()
	s.events.SessionOpened()
	log.Info("session started", zap.String("tls", client.encryption()), zap.String("upstream_tls", server.encryption()))
	r := &tenant{runner: s.drive(ses, client.Conn, server.Conn), session: ses, generation: cfg.Generation}
	login := time.AfterFunc(time.Until(deadline), r.loginExpired)
	s.adopt(client.raw, r)

	if tenure != nil {
		defer tenure.follow(r, log)()
	}
	reason := r.run()
	login.Stop()
	s.disown(r)
	lasted := time.Since(begin)
	s.events.SessionClosed(reason, lasted)
	log.Info("session ended", zap.Stringer("reason", reason), zap.Duration("lasted", lasted),
		zap.Int64("bytes_to_server", ses.toServer.Load()), zap.Int64("bytes_to_client", ses.toClient.Load()))
}
