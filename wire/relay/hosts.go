package relay

import (
	"context"
	"net"
)

// Address is where a server is.
type Address struct {
	Network string // tcp or unix
	Address string // host:port, or the path of the socket
	Name    string // host, for its certificate; "" takes the one in the TLS settings
}

// Hosts are the servers of an upstream that may be at several places. Immutable.
type Hosts struct {
	All []Address
	// Order gives the addresses that a session may go to, in the order in which they are tried. The error says that there
	// is none at the moment. It may be called concurrently.
	Order func(ctx context.Context) ([]Address, error)
}

// dial connects to the first server that can be reached.
func (u *Upstream) dial(ctx context.Context, withTLS bool) (net.Conn, error) {
	if u.Hosts == nil {
		return u.dialOne(ctx, Address{Network: u.Network, Address: u.Address}, withTLS)
	}
	order, err := u.Hosts.Order(ctx)
	if err != nil {
		return nil, err
	}
	for _, at := range order {
		var c net.Conn
		if c, err = u.dialOne(ctx, at, withTLS); err == nil || ctx.Err() != nil {
			return c, err
		}
	}
	return nil, err
}

// all are the places where a session may be that was begun earlier.
func (u *Upstream) all() []Address {
	if u.Hosts == nil {
		return []Address{{Network: u.Network, Address: u.Address}}
	}
	return u.Hosts.All
}
