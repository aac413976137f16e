package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"

	"github.com/fenceproxy/fenceproxy/wire"
)

// TLSWish is how much TLS to the server is wanted: libpq's sslmode. require and verify-* differ in the settings only.
type TLSWish uint8

const (
	TLSAllow   TLSWish = iota // only if the server refuses a session in plain text
	TLSPrefer                 // unless the server refuses it
	TLSRequire                // nothing else
)

// UpstreamTLS is TLS between the proxy and the server.
type UpstreamTLS struct {
	Wish   TLSWish
	Direct bool            // without an SSLRequest (sslnegotiation=direct); goes with TLSRequire
	Source *wire.TLSSource // settings of a client, with what they verify
}

var (
	errNoTLS     = errors.New("the server does not support TLS, but TLS was required")
	errNotServer = errors.New("the server does not answer as PostgreSQL does")
)

// encrypt begins TLS on a new connection. refused: the server has none to offer, and waits for a startup packet.
func (t *UpstreamTLS) encrypt(ctx context.Context, plain net.Conn, name string) (secure net.Conn, refused bool, err error) {
	if !t.Direct {
		answer, err := askForTLS(ctx, plain)
		if err != nil {
			return nil, false, err
		}
		switch answer {
		case 'S':
		case 'N':
			return nil, true, nil
		case wire.BackendErrorResponse: // too early to be believed (CVE-2024-10977), and so not read
			return nil, false, errNoTLS
		default:
			return nil, false, errNotServer
		}
	}
	settings := t.Source.Config()
	if name != "" && settings.ServerName != "" { // of several hosts, the settings name the first
		settings = settings.Clone()
		settings.ServerName = name
	}
	c := tls.Client(plain, settings)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, false, &upstreamTLSError{err}
	}
	if t.Direct && c.ConnectionState().NegotiatedProtocol != wire.ALPN {
		return nil, false, &upstreamTLSError{errors.New("direct TLS was answered without ALPN")}
	}
	return c, false, nil
}

// askForTLS reads one byte and no more: anything behind it that is not a TLS handshake makes that fail, and is never
// taken for an answer in the session (CVE-2021-23222).
func askForTLS(ctx context.Context, c net.Conn) (answer byte, err error) {
	defer interruptible(ctx, c)()
	if _, err := c.Write(wire.SSLRequest); err != nil {
		return 0, err
	}
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return 0, err
	}
	return b[0], nil
}

// interruptible makes reads and writes of c end with ctx, until the function it returns is called.
func interruptible(ctx context.Context, c net.Conn) (done func()) {
	if deadline, has := ctx.Deadline(); has {
		c.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(longAgo) })
	return func() { stop() }
}

// upstreamTLSError is a handshake with the server that failed.
type upstreamTLSError struct{ cause error }

func (e *upstreamTLSError) Error() string { return "TLS handshake: " + e.cause.Error() }
func (e *upstreamTLSError) Unwrap() error { return e.cause }

// detail says what a client may know of it.
func (e *upstreamTLSError) detail() string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(e.cause, &name):
		return "Its certificate is for another host name."
	case errors.As(e.cause, &unknown), errors.As(e.cause, &invalid):
		return "Its certificate cannot be trusted."
	}
	return "TLS with it failed. The log of fenceproxy has the reason."
}
