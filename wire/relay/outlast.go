package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A server does not notice that its client has gone while it executes a statement (tcop/postgres.c reads the socket
// between commands only), and may commit it much later. So a connection that is closed in the middle of something is not
// forgotten: who has to know that nothing of a session can be written any more waits for the server to close its side.

// outlastBytes is what is read and dropped of a server that still answers. One that has more to say is closed for good:
// its next write tells it that its client is lost, and it rolls back.
const outlastBytes = 1 << 20

// outlast closes c, but only when the server has, and calls parted then. It does not wait. Nobody else reads c any more.
func outlast(ctx context.Context, c socket, parted func()) {
	closeWrite(c)
	c.SetReadDeadline(time.Time{})
	go func() {
		defer parted()
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		io.CopyN(io.Discard, c, outlastBytes)
	}()
}

// lasting is the connection to a server in the hands of a driver. Close may come at any time and from any goroutine; it
// ends reads and writes under way, and the connection outlasts it.
type lasting struct {
	net.Conn
	ctx     context.Context
	parted  func()
	closed  atomic.Bool
	once    sync.Once
	reading sync.Mutex
}

func (c *lasting) Read(b []byte) (int, error) {
	n, err := c.read(b)
	if errors.Is(err, io.EOF) {
		c.parted()
	}
	return n, err
}

func (c *lasting) read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b)
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *lasting) SetReadDeadline(t time.Time) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *lasting) CloseWrite() error {
	closeWrite(c.Conn.(socket))
	return nil
}

// Close does not wait, for the reader neither.
func (c *lasting) Close() error {
	c.once.Do(func() {
		c.closed.Store(true)
		c.Conn.SetDeadline(time.Unix(1, 0))
		go c.leave()
	})
	return nil
}

func (c *lasting) leave() {
	c.reading.Lock() // the reader has left
	defer c.reading.Unlock()
	under := c.Conn
	if t, ok := under.(*tls.Conn); ok {
		under = t.NetConn() // what the server says does not matter any more
	}
	under.SetWriteDeadline(time.Time{})
	outlast(c.ctx, under, c.parted)
}
