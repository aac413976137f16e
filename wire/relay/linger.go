package relay

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/fenceproxy/fenceproxy/wire"
)

// Closing a socket with unread bytes makes the kernel send a reset, which can destroy what was written before on its way
// to the peer. So the last words are followed by the end of the stream, and what the peer still sends is read and
// dropped, for a while.
const (
	lingerTime  = time.Second
	lingerBytes = 16 << 20
)

// socket is what can be said goodbye to: a net.Conn, for example.
type socket interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

func closeWrite(c socket) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

// linger reads and drops until the peer has closed or the time is over. buf is scratch.
func linger(c socket, buf []byte) {
	closeWrite(c)
	until := time.Now().Add(lingerTime)
	for dropped := 0; dropped < lingerBytes; {
		c.SetReadDeadline(until)
		n, err := c.Read(buf)
		dropped += n
		if err != nil && !(isTimeout(err) && time.Now().Before(until)) {
			return
		}
	}
}

// turnAway tells a client that has no session why, and closes.
func turnAway(c net.Conn, e *wire.Error) { turnAwayWith(c, wire.AppendError(nil, e)) }

func turnAwayWith(c net.Conn, words []byte) {
	c.SetDeadline(time.Now().Add(lingerTime))
	if _, err := c.Write(words); err == nil {
		var buf [512]byte
		linger(c, buf[:])
	}
	c.Close()
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
