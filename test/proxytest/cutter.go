package proxytest

import (
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Cutter is a relay that passes a server's bytes on in small writes, so that what reads behind it sees messages cut
// anywhere. It stands between the proxy and PostgreSQL.
type Cutter struct{ listener net.Listener }

// NewCutter starts a relay to addr that writes in the pieces that cut says.
func NewCutter(t testing.TB, addr string, cut func([]byte) []int) *Cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go relay(conn, addr, cut)
		}
	}()
	return &Cutter{listener: l}
}

// DSN is a DSN with its address replaced by the relay's.
func (c *Cutter) DSN(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = c.listener.Addr().String()
	return u.String()
}

func relay(client net.Conn, addr string, cut func([]byte) []int) {
	server, err := net.Dial("tcp", addr)
	if err != nil {
		client.Close()
		return
	}
	both := sync.WaitGroup{}
	both.Go(func() { pass(server, client, cut) })
	both.Go(func() { pass(client, server, cut) })
	both.Wait()
	client.Close()
	server.Close()
}

// pass copies one direction to its end and hands the end on. The other direction goes on: a server's last words come
// after it has stopped reading.
func pass(to, from net.Conn, cut func([]byte) []int) {
	defer to.(*net.TCPConn).CloseWrite()
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		rest := buf[:n]
		for _, k := range cut(rest) {
			if _, err := to.Write(rest[:k]); err != nil {
				return
			}
			rest = rest[k:]
		}
		if _, werr := to.Write(rest); werr != nil || err != nil {
			return
		}
	}
}

// SingleBytes cuts into pieces of one byte.
func SingleBytes(b []byte) []int {
	pieces := make([]int, len(b))
	for i := range pieces {
		pieces[i] = 1
	}
	return pieces
}

// RandomPieces cuts at random places, the same ones for the same seed and calls.
func RandomPieces(seed uint64) func([]byte) []int {
	return func(b []byte) []int {
		r := rand.New(rand.NewPCG(seed, uint64(len(b))))
		var pieces []int
		for left := len(b); left > 0; {
			n := 1 + r.IntN(min(left, 12))
			pieces = append(pieces, n)
			left -= n
		}
		return pieces
	}
}
