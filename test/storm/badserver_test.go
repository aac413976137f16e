package storm

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// welcome is what a server says to a login that it trusts.
var welcome = bytes.Join([][]byte{
	message('R', []byte{0, 0, 0, 0}),
	message('S', []byte("client_encoding\x00UTF8\x00")), message('S', []byte("standard_conforming_strings\x00on\x00")),
	message('K', []byte{0, 0, 0, 1, 0, 0, 0, 2}), message('Z', []byte("I")),
}, nil)

// A misbehaviour gets a connection whose startup packet has been read, and closes it by returning.
var misbehaviours = map[string]func(*net.TCPConn, *rand.Rand){
	"hangs up":               func(*net.TCPConn, *rand.Rand) {},
	"says nothing, for ever": func(c *net.TCPConn, _ *rand.Rand) { io.Copy(io.Discard, c) },
	"random bytes":           func(c *net.TCPConn, r *rand.Rand) { c.Write(noise(r, 1+r.IntN(500))) },
	"random bytes after the login": func(c *net.TCPConn, r *rand.Rand) {
		c.Write(append(bytes.Clone(welcome), noise(r, 1+r.IntN(500))...))
	},
	"random messages": func(c *net.TCPConn, r *rand.Rand) {
		for range 50 {
			c.Write(message(byte("1234567890ABCDEGHIKNRSTVZdcnstvW"[r.IntN(32)]), noise(r, r.IntN(40))))
		}
	},
	"random messages after the login": func(c *net.TCPConn, r *rand.Rand) {
		c.Write(welcome)
		for range 50 {
			c.Write(message(byte("123CDEGHIKNRSTVZdcnstW"[r.IntN(22)]), noise(r, r.IntN(40))))
		}
	},
	"the login cut anywhere": func(c *net.TCPConn, r *rand.Rand) { c.Write(welcome[:r.IntN(len(welcome))]) },
	"the login cut anywhere, then nothing, for ever": func(c *net.TCPConn, r *rand.Rand) {
		c.Write(welcome[:r.IntN(len(welcome)-6)])
		io.Copy(io.Discard, c)
	},
	"a message of length 0":     func(c *net.TCPConn, _ *rand.Rand) { c.Write([]byte{'T', 0, 0, 0, 0, 0, 0, 0, 0}) },
	"a message of length -1":    func(c *net.TCPConn, _ *rand.Rand) { c.Write(append(bytes.Clone(welcome), 'T', 255, 255, 255, 255, 1)) },
	"a message that never ends": func(c *net.TCPConn, _ *rand.Rand) { endless(c, []byte{'D', 127, 255, 255, 255}) },
	"an error that never ends":  func(c *net.TCPConn, _ *rand.Rand) { endless(c, []byte{'E', 127, 255, 255, 255, 'S'}) },
	"a parameter that never ends": func(c *net.TCPConn, _ *rand.Rand) {
		endless(c, []byte{'S', 127, 255, 255, 255, 'x'})
	},
	"parameters without end": func(c *net.TCPConn, _ *rand.Rand) {
		endless(c, bytes.Repeat(message('S', []byte("search_path\x00x\x00")), 1000))
	},
	"ReadyForQuery without end": func(c *net.TCPConn, _ *rand.Rand) {
		c.Write(welcome)
		endless(c, bytes.Repeat(message('Z', []byte("I")), 1000))
	},
	"a welcome to every message": func(c *net.TCPConn, _ *rand.Rand) {
		buf := make([]byte, 4096)
		for range 2 {
			c.Write(welcome)
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	},
	"an authentication method of its own": func(c *net.TCPConn, _ *rand.Rand) { c.Write(message('R', []byte{0, 0, 0, 99})) },
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// endless writes a head and then the same bytes until nobody takes them, or 200 MB.
func endless(c *net.TCPConn, head []byte) {
	c.Write(welcome)
	c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	chunk := bytes.Repeat(head, 1+(1<<16)/len(head))
	for sent := 0; sent < 200<<20; {
		n, err := c.Write(chunk)
		if sent += n; err != nil {
			return
		}
	}
}

// badServer listens and misbehaves.
func badServer(t *testing.T, misbehave func(*net.TCPConn, *rand.Rand)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := uint64(0); ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if head := make([]byte, 4); readStartup(conn, head) {
					misbehave(conn.(*net.TCPConn), rand.New(rand.NewPCG(*seed, n)))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func readStartup(conn net.Conn, head []byte) bool {
	if _, err := io.ReadFull(conn, head); err != nil {
		return false
	}
	_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head))-4)
	return err == nil
}

// A server that misbehaves ends its sessions and nothing else: no panic, no growth, nothing left behind. Marks are raised by a
// control connection to a real server.
func TestServersThatMisbehave(t *testing.T) {
	c, db := database(t)
	for name, misbehave := range misbehaviours {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			addr := badServer(t, misbehave)
			p := proxytest.Start(t, "postgres://postgres@"+addr+"/"+db+"?sslmode=disable", "--control", c.DSN(db, "postgres"),
				"--fence", "acct=acct", "--login-timeout", "1s", "--log-level", "error")
			before := p.Metric(t, "go_goroutines")
			memory := resident(t, p.Pid())
			var clients sync.WaitGroup
			for n := range 20 {
				clients.Go(func() { visit(t, p.Addr(), db, n) })
			}
			clients.Wait()
			eventually(t, "all sessions end", func() (bool, any) {
				now := p.Metric(t, "fenceproxy_sessions")
				return now == 0, now
			})
			eventually(t, "no goroutine is left", func() (bool, any) {
				now := p.Metric(t, "go_goroutines")
				return now <= before+4, now // a control connection or two
			})
			if n := p.Metric(t, "fenceproxy_panics_total"); n != 0 {
				t.Errorf("%v panics", n)
			}
			if grown := resident(t, p.Pid()) - memory; grown > 100<<20 {
				t.Errorf("%d MB more than before", grown>>20)
			}
		})
	}
}

// visit logs in, as far as that goes, sends two writes, and reads until the proxy ends the session. Every second one leaves
// early.
func visit(t *testing.T, addr, db string, n int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	conn.Write(conversation.Startup("user", "teller", "database", db, "fence.token", []string{"", "10"}[n%2]))
	conn.Write(message('Q', []byte("UPDATE acct SET bal = 1\x00")))
	conn.Write(message('P', []byte("\x00UPDATE acct SET bal = 1\x00\x00\x00")))
	conn.Write(message('S', nil))
	conn.SetReadDeadline(time.Now().Add(waitLimit))
	if n%4 < 2 {
		_, err = io.Copy(io.Discard, conn)
	} else {
		_, err = io.CopyN(io.Discard, conn, int64(n*10))
	}
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Error("the proxy neither ends the session nor says anything")
	}
}
