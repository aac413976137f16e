package relay

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Sockets are handed over by an abstract Unix socket, which lives in the same network namespace as the address, needs no
// file, and goes away with its process. Whoever asks must be the same user: abstract sockets have no permissions.
func handoverName(address string) string {
	return fmt.Sprintf("@fenceproxy/%d/%s", os.Geteuid(), address)
}

const handoverTime = time.Second

// takeOver gets the listener of an address from the process that offers it; nil if there is none.
func takeOver(address string) net.Listener {
	c, err := net.DialTimeout("unix", handoverName(address), handoverTime)
	if err != nil {
		return nil
	}
	defer c.Close()
	u := c.(*net.UnixConn)
	if !sameUser(u) {
		return nil
	}
	u.SetDeadline(time.Now().Add(handoverTime))
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, flags, _, err := u.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil || flags&unix.MSG_CTRUNC != 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil
	}
	unix.CloseOnExec(fds[0])
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil
	}
	return l
}

// Offer gives the listener to the first process of our user that asks for it; from then on that one offers it. stop
// withdraws the offer and may be called more than once.
func Offer(address string, l net.Listener) (stop func()) {
	offer, err := net.Listen("unix", handoverName(address))
	if err != nil {
		return func() {} // somebody else offers it
	}
	go func() {
		for {
			c, err := offer.Accept()
			if err != nil {
				return
			}
			if u := c.(*net.UnixConn); sameUser(u) {
				offer.Close() // before the other one has the socket, for then it makes an offer
				handOver(u, l)
				c.Close()
				return
			}
			c.Close()
		}
	}()
	return func() { offer.Close() }
}

func handOver(to *net.UnixConn, l net.Listener) {
	raw, err := l.(interface {
		SyscallConn() (syscall.RawConn, error)
	}).SyscallConn()
	if err != nil {
		return
	}
	to.SetDeadline(time.Now().Add(handoverTime))
	raw.Control(func(fd uintptr) { to.WriteMsgUnix([]byte{0}, unix.UnixRights(int(fd)), nil) })
}

func sameUser(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var who *unix.Ucred
	raw.Control(func(fd uintptr) { who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return err == nil && int(who.Uid) == os.Geteuid()
}
