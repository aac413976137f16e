package relay

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// The client is paused in the middle of what it sent; what the server's reply makes the engine send goes before the rest.
func TestPauseKeepsOrder(t *testing.T) {
	got := make(chan []byte, 1)
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(hello)
		var all []byte
		buf := make([]byte, 100)
		for {
			n, err := c.Read(buf)
			all = append(all, buf[:n]...)
			if bytes.HasSuffix(buf[:n], []byte("one")) {
				c.Write([]byte("reply"))
			}
			if err != nil {
				got <- all
				return
			}
		}
	})
	s := startServer(t, upstream, func() *forwarder {
		return &forwarder{
			fromClient: func(in []byte, out *Output) (int, bool) {
				if !bytes.HasPrefix(in, []byte("one")) {
					return 0, false
				}
				out.ToServer.add(in[:3])
				out.Effect = EffectWait
				return 3, true
			},
			fromServer: func(in []byte, out *Output) bool {
				if string(in) == "reply" {
					out.ToServer.add([]byte("two"))
					out.Effect = EffectResume
				}
				return false
			},
		}
	}, nil)
	c := login(t, s.addr)
	send(t, c, []byte("onethree"))
	expect(t, c, []byte("reply"))
	c.CloseWrite()
	if all := receive(t, "end of stream at the server", got); string(all) != "onetwothree" {
		t.Fatalf("the server got %q", all)
	}
}

// Before the session is ready the engine may talk to the server while the client is silent.
func TestQuestionWhileClientIsSilent(t *testing.T) {
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(authOK)
		buf := make([]byte, 100)
		n, _ := c.Read(buf)
		c.Write(append([]byte("answer to "), buf[:n]...))
		io.Copy(io.Discard, c)
	})
	s := startServer(t, upstream, func() *forwarder {
		return &forwarder{fromServer: func(in []byte, out *Output) bool {
			if bytes.Equal(in, authOK) {
				out.ToServer.add([]byte("question"))
			}
			return false
		}}
	}, nil)
	c := connect(t, s.addr)
	send(t, c, startupPacket("user", "u"))
	expect(t, c, append(bytes.Clone(authOK), "answer to question"...))
}

func announcing(answered chan<- *tokens.Error) func() *forwarder {
	return func() *forwarder {
		return &forwarder{
			fromClient: func(in []byte, out *Output) (int, bool) {
				if !bytes.HasPrefix(in, []byte("set")) {
					return 0, false
				}
				out.Effect = EffectAnnounce
				out.Announce = tokens.List{{Token: tokens.Token{Counter: 34}}}
				return 0, true
			},
			announced: func(marks []tokens.Mark, err *tokens.Error, out *Output) {
				answered <- err
				out.ToServer.add([]byte("announced"))
				out.ToClient.add([]byte("told"))
				out.Effect = EffectResume
			},
		}
	}
}

func TestAnnounceLetsTheServerSpeak(t *testing.T) {
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(hello)
		buf := make([]byte, 100)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			c.Write(buf[:n])
		}
	})
	release := make(chan struct{})
	answered := make(chan *tokens.Error, 1)
	var calls atomic.Int32
	engine := announcing(answered)
	s := startServer(t, upstream, func() *forwarder {
		f := engine()
		once := f.fromClient
		f.fromClient = func(in []byte, out *Output) (int, bool) {
			if calls.Add(1) > 2 { // hello?, set, and then the rest
				return 0, false
			}
			return once(in, out)
		}
		return f
	}, func(cfg *ServerConfig) {
		cfg.Announcer = announcerFunc(func(ctx context.Context, _ tokens.Session, l tokens.List) ([]tokens.Mark, *tokens.Error) {
			<-release
			return nil, nil
		})
	})
	c := login(t, s.addr)
	send(t, c, []byte("hello?"))
	expect(t, c, []byte("hello?"))
	send(t, c, []byte("set"))
	send(t, c, []byte(" and more"))
	close(release)
	if err := receive(t, "answer to the announcement", answered); err != nil {
		t.Fatal(err)
	}
	expect(t, c, []byte("told"))
	expect(t, c, []byte("announcedset and more"))
}

func TestClientGoneDuringAnnounce(t *testing.T) {
	upstream := fakeUpstream(t, answering)
	answered := make(chan *tokens.Error, 1)
	s := startServer(t, upstream, announcing(answered), func(cfg *ServerConfig) {
		cfg.Announcer = announcerFunc(func(ctx context.Context, _ tokens.Session, l tokens.List) ([]tokens.Mark, *tokens.Error) {
			<-ctx.Done()
			return nil, &tokens.Error{Code: tokens.CodeUnavailable}
		})
	})
	c := login(t, s.addr)
	send(t, c, []byte("set"))
	poll(t, "session", func() bool { return s.Sessions() == 1 })
	c.Close()
	if err := receive(t, "answer to the announcement", answered); err == nil {
		t.Fatal("the announcement was not given up")
	}
	poll(t, "no session", func() bool { return s.Sessions() == 0 })
}

// A client that sends 12 MB before it reads 48 MB (odyssey#1475).
func TestFullDuplex(t *testing.T) {
	const chunk, chunks = 64 << 10, 192
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(hello)
		buf := make([]byte, chunk)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			for range 4 {
				if _, err := c.Write(buf[:n]); err != nil {
					return
				}
			}
		}
	})
	s := startServer(t, upstream, forward, nil)
	c := login(t, s.addr)
	go func() {
		b := make([]byte, chunk)
		for range chunks {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
		c.CloseWrite()
	}()
	n, err := io.Copy(io.Discard, c)
	if err != nil || n != 4*chunk*chunks {
		t.Fatalf("got %d bytes of %d, %v", n, 4*chunk*chunks, err)
	}
}

// A client that does not read stops its server, a server that does not read stops its client: the proxy holds a buffer's
// worth, the rest waits in the sockets.
func TestStalledReaderStopsTheWriter(t *testing.T) {
	const limit = 64 << 20 // far above what the kernel keeps in sockets, far below what would be written without a stop
	stall := func(t *testing.T, c *net.TCPConn, moved func() int64) {
		var last int64 = -1
		poll(t, "writer stopped", func() bool {
			time.Sleep(50 * time.Millisecond)
			n := moved()
			defer func() { last = n }()
			return n == last
		})
		if last >= limit {
			t.Errorf("%d bytes moved although nobody reads", last)
		}
	}
	flood := func(c *net.TCPConn, n *atomic.Int64) {
		b := make([]byte, 64<<10)
		for n.Load() < limit {
			k, err := c.Write(b)
			n.Add(int64(k))
			if err != nil {
				return
			}
		}
	}
	t.Run("client", func(t *testing.T) {
		var sent atomic.Int64
		upstream := fakeUpstream(t, func(c *net.TCPConn) {
			c.Write(hello)
			flood(c, &sent)
		})
		s := startServer(t, upstream, forward, nil)
		c := login(t, s.addr)
		stall(t, c, sent.Load)
		c.Close()
		poll(t, "no session", func() bool { return s.Sessions() == 0 })
	})
	t.Run("server", func(t *testing.T) {
		var sent atomic.Int64
		release := make(chan struct{})
		upstream := fakeUpstream(t, func(c *net.TCPConn) {
			c.Write(hello)
			<-release
		})
		s := startServer(t, upstream, forward, nil)
		c := login(t, s.addr)
		go flood(c, &sent)
		stall(t, c, sent.Load)
		close(release)
		poll(t, "no session", func() bool { return s.Sessions() == 0 })
	})
}

func TestHalfClose(t *testing.T) {
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(hello)
		all, _ := io.ReadAll(c)
		c.Write(bytes.Repeat(all, 100000))
	})
	s := startServer(t, upstream, forward, nil)
	c := login(t, s.addr)
	send(t, c, []byte("question"))
	c.CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil || len(got) != 800000 {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
	s.waitEnded(t, EndClient, 1)
}

// The last words of a server reach a client that is still sending.
func TestLastWordsReachASendingClient(t *testing.T) {
	words := wire.AppendError(nil, fatalError("57P01", "terminating connection due to administrator command", ""))
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(hello)
		io.ReadFull(c, make([]byte, 1000))
		c.Write(words) // and a close with unread bytes, which resets the connection
		c.CloseWrite()
		time.Sleep(50 * time.Millisecond)
	})
	s := startServer(t, upstream, forward, nil)
	for range 20 {
		c := login(t, s.addr)
		go func() {
			b := make([]byte, 10000)
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
		got := make([]byte, len(words))
		if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, words) {
			t.Fatalf("got %q, %v", got[:n], err)
		}
		c.Close()
	}
}

func TestPanicEndsOneSession(t *testing.T) {
	for _, side := range []string{"client", "server"} {
		t.Run(side, func(t *testing.T) {
			upstream := fakeUpstream(t, func(c *net.TCPConn) {
				c.Write(hello)
				io.Copy(c, c)
			})
			bug := func(in []byte) {
				if bytes.Contains(in, []byte("bug")) {
					panic("bug")
				}
			}
			s := startServer(t, upstream, func() *forwarder {
				f := new(forwarder)
				if side == "client" {
					f.fromClient = func(in []byte, _ *Output) (int, bool) { bug(in); return 0, false }
				} else {
					f.fromServer = func(in []byte, _ *Output) bool { bug(in); return false }
				}
				return f
			}, nil)
			good, bad := login(t, s.addr), login(t, s.addr)
			send(t, bad, []byte("bug"))
			if b, err := io.ReadAll(bad); len(b) > 0 {
				t.Fatalf("got %q, %v", b, err)
			}
			s.waitEnded(t, EndPanic, 1)
			if s.panics != 1 {
				t.Fatalf("%d panics counted", s.panics)
			}
			send(t, good, []byte("hello"))
			expect(t, good, []byte("hello"))
		})
	}
}

// The engine closes the session: its words arrive, the server is told goodbye.
func TestEngineCloses(t *testing.T) {
	words := wire.AppendError(nil, fatalError("ZF001", "stale", ""))
	goodbye := make(chan []byte, 1)
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(hello)
		all, _ := io.ReadAll(c)
		goodbye <- all
	})
	s := startServer(t, upstream, func() *forwarder {
		return &forwarder{fromServer: func(in []byte, out *Output) bool {
			out.ToClient.add(words)
			out.Close = true
			return true
		}}
	}, nil)
	c := connect(t, s.addr)
	send(t, c, startupPacket("user", "u"))
	expectFatal(t, c, "ZF001")
	if all := receive(t, "end of stream at the server", goodbye); !bytes.Equal(all, terminate) {
		t.Fatalf("the server got %q", all)
	}
	s.waitEnded(t, EndRejected, 1)
}

func TestForwardDoesNotAllocate(t *testing.T) {
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(hello)
		io.Copy(c, c)
	})
	s := startServer(t, upstream, forward, nil)
	c := login(t, s.addr)
	msg := query("select 1")
	got := make([]byte, len(msg))
	trip := func() {
		c.Write(msg)
		io.ReadFull(c, got)
	}
	for range 100 {
		trip()
	}
	if n := testing.AllocsPerRun(200, trip); n > 0 {
		t.Errorf("%v allocations per round trip", n)
	}
}
