package relay

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerProcess is " pid=PID uid=UID", or nothing.
func peerProcess(c *net.UnixConn) string {
	raw, err := c.SyscallConn()
	if err != nil {
		return ""
	}
	var who *unix.Ucred
	raw.Control(func(fd uintptr) { who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || who == nil {
		return ""
	}
	return fmt.Sprintf(" pid=%d uid=%d", who.Pid, who.Uid)
}
