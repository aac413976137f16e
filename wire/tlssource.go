package wire

import (
	"crypto/tls"
	"sync/atomic"
)

// ALPN is the name of PostgreSQL's protocol in a TLS handshake. Direct TLS demands it, so that no client of another
// protocol can be tricked into talking to a database (ALPACA).
const ALPN = "postgresql"

// TLSSource gives the TLS settings that the next handshake uses. They can be loaded again while connections come in.
// Its methods may be called concurrently.
type TLSSource struct {
	load    func() (*tls.Config, error)
	current atomic.Pointer[tls.Config]
}

// NewTLSSource loads for the first time.
func NewTLSSource(load func() (*tls.Config, error)) (*TLSSource, error) {
	s := &TLSSource{load: load}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload loads again, for handshakes that begin from now on. After an error the former settings stay.
func (s *TLSSource) Reload() error {
	c, err := s.Load()
	if err != nil {
		return err
	}
	s.Use(c)
	return nil
}

// Load loads again and changes nothing yet: Use does.
func (s *TLSSource) Load() (*tls.Config, error) { return s.load() }

// Use takes what Load has given.
func (s *TLSSource) Use(c *tls.Config) { s.current.Store(c) }

// Config is not to be changed.
func (s *TLSSource) Config() *tls.Config { return s.current.Load() }
