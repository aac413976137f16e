package tokens

import "syscall"

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT, linux/tcp.h

// dialControl bounds how long sent data may stay unacknowledged; keepalive does not look at that.
func dialControl(network, _ string, raw syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return raw.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
	})
}
