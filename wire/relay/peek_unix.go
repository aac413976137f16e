//go:build unix

package relay

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// closed waits until c has something to read, or its read deadline, and reports whether that is the end of the stream.
func closed(c net.Conn) (ended bool) {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var b [1]byte
	raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch err {
		case unix.EAGAIN, unix.EINTR:
			return false // wait
		case nil:
			ended = n == 0
		default:
			ended = true
		}
		return true
	})
	return ended
}
