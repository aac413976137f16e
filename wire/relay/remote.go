package relay

import "net"

// remoteName says in the log who has connected: the address, and of a Unix socket, where clients have none, its path and
// what the kernel tells of the process.
func remoteName(c net.Conn) string {
	if c.RemoteAddr().Network() != "unix" {
		return c.RemoteAddr().String()
	}
	name := "unix:" + c.LocalAddr().String()
	if u, ok := c.(*net.UnixConn); ok {
		name += peerProcess(u)
	}
	return name
}
