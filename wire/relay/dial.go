package relay

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/wire"
)

// Upstream is where the PostgreSQL server is.
type Upstream struct {
	Network string        // tcp or unix
	Address string        // host:port, or the path of the socket
	Timeout time.Duration // for connecting, TLS included; 0 means 5 s
	TLS     *UpstreamTLS  // nil: plain text
	Hosts   *Hosts        // nil: the one server at Address
}

const defaultDialTimeout = 5 * time.Second

var longAgo = time.Unix(1, 0)

// keepAlive notices a peer that is gone without a word within two minutes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second, Interval: 10 * time.Second, Count: 6}

func (u *Upstream) timeout() time.Duration {
	if u.Timeout > 0 {
		return u.Timeout
	}
	return defaultDialTimeout
}

// begins reports whether the first connection for a session asks for TLS.
func (u *Upstream) begins() (withTLS bool) { return u.TLS != nil && u.TLS.Wish != TLSAllow }

// dialOne connects to a server, with TLS or without. With TLSPrefer the connection is in plain text when the
// server has no TLS, or when it fails, as libpq's (fe-connect.c, encryption_negotiated and select_next_encryption_method).
func (u *Upstream) dialOne(ctx context.Context, at Address, withTLS bool) (net.Conn, error) {
	ctx, done := context.WithTimeout(ctx, u.timeout())
	defer done()
	c, err := at.connect(ctx)
	if err != nil || !withTLS {
		return c, err
	}
	secure, refused, err := u.TLS.encrypt(ctx, c, at.Name)
	switch {
	case err == nil && !refused:
		c.SetDeadline(time.Time{})
		return secure, nil
	case refused && u.TLS.Wish == TLSPrefer:
		c.SetDeadline(time.Time{})
		return c, nil
	}
	c.Close()
	switch {
	case refused:
		return nil, errNoTLS
	case u.TLS.Wish == TLSPrefer && ctx.Err() == nil:
		return at.connect(ctx)
	}
	return nil, err
}

// connect makes the connection. TCP_NODELAY is what the net package sets.
func (a Address) connect(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, a.Network, a.Address)
}

// unreachable is what a client is told when dial has failed; what the net package says goes to the log only. 57P03 is
// what a PostgreSQL that cannot take connections yet says, and drivers that know it try again.
func unreachable(err error) *wire.Error {
	var detail string
	var dns *net.DNSError
	var secure *upstreamTLSError
	switch {
	case errors.As(err, &dns):
		detail = "Its host name cannot be resolved."
	case errors.Is(err, syscall.ECONNREFUSED):
		detail = "It refuses connections: PostgreSQL is not running there."
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		detail = "It does not answer."
	case errors.Is(err, fs.ErrNotExist):
		detail = "Its socket does not exist: PostgreSQL is not running there."
	case errors.Is(err, fs.ErrPermission):
		detail = "The proxy may not use its socket."
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		detail = "There is no route to it."
	case errors.Is(err, errNoTLS):
		detail = "It offers no TLS, and the proxy is not to speak to it without (sslmode)."
	case errors.Is(err, errBindingOnly):
		detail = "It takes passwords with channel binding only, which needs TLS between the client and the proxy."
	case errors.As(err, &secure):
		detail = secure.detail()
	default:
		detail = "The log of fenceproxy has the reason."
	}
	return fatalError("57P03", "fenceproxy: cannot connect to upstream", detail)
}

func fatalError(code, message, detail string) *wire.Error {
	return &wire.Error{Severity: "FATAL", Code: code, Message: message, Detail: detail}
}
