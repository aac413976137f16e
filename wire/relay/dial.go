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
	Timeout time.Duration // for connecting; 0 means 5 s
}

const defaultDialTimeout = 5 * time.Second

// keepAlive notices a peer that is gone without a word within two minutes.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second, Interval: 10 * time.Second, Count: 6}

func (u Upstream) timeout() time.Duration {
	if u.Timeout > 0 {
		return u.Timeout
	}
	return defaultDialTimeout
}

// dial connects to the upstream server. TCP_NODELAY is what the net package sets.
func (u Upstream) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: u.timeout(), KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, u.Network, u.Address)
}

// unreachable is what a client is told when dial has failed; what the net package says goes to the log only. 57P03 is
// what a PostgreSQL that cannot take connections yet says, and drivers that know it try again.
func unreachable(err error) *wire.Error {
	var detail string
	var dns *net.DNSError
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
	default:
		detail = "The log of fenceproxy has the reason."
	}
	return fatalError("57P03", "fenceproxy: cannot connect to upstream", detail)
}

func fatalError(code, message, detail string) *wire.Error {
	return &wire.Error{Severity: "FATAL", Code: code, Message: message, Detail: detail}
}
