package relay

import "time"

// Limits bound what the server accepts. They can be changed while it runs.
type Limits struct {
	// MaxConnections bounds the sessions at a time; 0 means 1000. One more is told 53300.
	MaxConnections int
	// LoginTimeout is from accept until the session is ready; 0 means 60 s, as PostgreSQL's authentication_timeout.
	LoginTimeout time.Duration
	// AllowReplication lets connections pass that ask for replication: physical ones untouched, logical ones through
	// the engine. Otherwise they are refused.
	AllowReplication bool
}

const defaultLoginTimeout = 60 * time.Second

// SetLimits changes the limits for connections to come; none is ended for it. Safe to call at any time.
func (s *Server) SetLimits(l Limits) {
	if l.MaxConnections <= 0 {
		l.MaxConnections = defaultMaxConnections
	}
	if l.LoginTimeout <= 0 {
		l.LoginTimeout = defaultLoginTimeout
	}
	s.sessions.max.Store(int64(l.MaxConnections))
	s.strangers.max.Store(maxStrangers(l.MaxConnections))
	s.limits.Store(&l)
}
