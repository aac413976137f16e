package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/fenceproxy/fenceproxy/wire"
)

// serverLeg is a connection to the server that was sent the startup packet.
type serverLeg struct {
	net.Conn
	secure *tls.Conn // nil in plain text
}

// encryption is for the log.
func (l *serverLeg) encryption() string {
	if l.secure == nil {
		return "none"
	}
	return tls.VersionName(l.secure.ConnectionState().Version)
}

// Bounds of what the server says before the client has proven who it is. libpq takes 30,000 bytes of an error and 2,000
// of anything else.
const (
	maxGreeting         = 64 << 10
	maxGreetingMessages = 100
)

var errBindingOnly = errors.New("the server accepts passwords with channel binding only")

// open begins a session with the server for a client that has come by l. Where TLS is optional and the server's first
// answer is an error, the other way is tried, as libpq does. Later than that the client has seen the first one.
func (s *Server) open(ctx context.Context, l *clientLeg, start *wire.Startup) (serverLeg, error) {
	u := &s.cfg.Upstream
	server, err := s.begin(ctx, start, u.begins())
	if err != nil {
		return server, err
	}
	isOptional := u.TLS != nil && (u.TLS.Wish == TLSAllow || u.TLS.Wish == TLSPrefer && server.secure != nil)
	mustStrip := func() bool { return s.cfg.Verifiers == nil && server.secure != nil && l.secure == nil }
	if !isOptional && !mustStrip() {
		return server, nil
	}
	said, err := hear(ctx, server)
	if err == nil && isOptional && said.typ == wire.BackendErrorResponse {
		if other, failed := s.begin(ctx, start, server.secure == nil); failed == nil && (other.secure == nil) != (server.secure == nil) {
			server.Close()
			server = other
			if !mustStrip() {
				return server, nil
			}
			said, err = hear(ctx, server)
		} else if failed == nil {
			other.Close()
		}
	}
	if err == nil && mustStrip() {
		err = said.strip()
	}
	if err != nil {
		server.Close()
		return serverLeg{}, err
	}
	server.Conn = &begun{Conn: server.Conn, head: said.bytes}
	return server, nil
}

// begin connects and sends the startup packet.
func (s *Server) begin(ctx context.Context, start *wire.Startup, withTLS bool) (serverLeg, error) {
	c, err := s.dial(ctx, withTLS)
	if err != nil {
		return serverLeg{}, err
	}
	defer interruptible(ctx, c)()
	if _, err := c.Write(start.Raw); err != nil {
		c.Close()
		return serverLeg{}, err
	}
	secure, _ := c.(*tls.Conn)
	return serverLeg{c, secure}, nil
}

// greeting is what the server has said, up to its first message that is more than a remark.
type greeting struct {
	bytes []byte
	last  int  // where that message begins
	typ   byte // and its type
}

func hear(ctx context.Context, c net.Conn) (greeting, error) {
	defer interruptible(ctx, c)()
	var g greeting
	for range maxGreetingMessages {
		var header [wire.HeaderLen]byte
		if _, err := io.ReadFull(c, header[:]); err != nil {
			return g, err
		}
		typ, size, ok := wire.Frame(header[:])
		if !ok || len(g.bytes)+size > maxGreeting {
			return g, errNotServer
		}
		g.last, g.typ = len(g.bytes), typ
		g.bytes = append(g.bytes, header[:]...)
		g.bytes = append(g.bytes, make([]byte, size-wire.HeaderLen)...)
		if _, err := io.ReadFull(c, g.bytes[g.last+wire.HeaderLen:]); err != nil {
			return g, err
		}
		if typ != wire.BackendNoticeResponse && typ != wire.BackendNegotiateProtocol {
			return g, nil
		}
	}
	return g, errNotServer
}

// strip takes the mechanisms with channel binding off the server's offer. A client in plain text cannot use them, and
// libpq takes their offer on such a connection for an attack (fe-auth.c pg_SASL_init).
func (g *greeting) strip() error {
	if g.typ != wire.BackendAuthentication {
		return nil
	}
	message, left, changed, ok := wire.WithoutChannelBinding(g.bytes[g.last+wire.HeaderLen:])
	switch {
	case !ok:
		return errNotServer
	case !changed:
		return nil
	case left == 0:
		return errBindingOnly
	}
	g.bytes = append(g.bytes[:g.last], message...)
	return nil
}
