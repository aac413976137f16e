package relay

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/freeport"
	"github.com/fenceproxy/fenceproxy/wire"
)

// One bad client gets a clear error, and the next good one a session.
func TestStartupRefused(t *testing.T) {
	s := startServer(t, fakeUpstream(t, answering), forward, nil)
	ssl, gss := []byte("\x00\x00\x00\x08\x04\xd2\x16\x2f"), []byte("\x00\x00\x00\x08\x04\xd2\x16\x30")
	for _, c := range []struct {
		name string
		in   []byte
		code string
		text string
	}{
		{"random", []byte("\x93\x1f\x88\x02\x4c\x00\x01\xff\xee\xdd"), "08P01", "invalid length of startup packet"},
		{"http", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "08P01", "invalid length of startup packet"},
		{"1 MB", append([]byte("\x00\x10\x00\x00\x00\x03\x00\x00"), bytes.Repeat([]byte("x"), 1<<20)...), "08P01", "invalid length of startup packet"},
		{"negative", []byte("\xff\xff\xff\xf0\x00\x03\x00\x00"), "08P01", "invalid length of startup packet"},
		{"2.0", append([]byte("\x00\x00\x00\x10\x00\x02\x00\x00"), make([]byte, 8)...), "0A000", "unsupported frontend protocol 2.0: server supports 3.0 to 3.2"},
		{"no terminator", []byte("\x00\x00\x00\x0d\x00\x03\x00\x00user\x00"), "08P01", "invalid startup packet layout: expected terminator as last byte"},
		{"ssl twice", append(bytes.Clone(ssl), ssl...), "0A000", "unsupported frontend protocol 1234.5679: server supports 3.0 to 3.2"},
		{"gss twice", append(bytes.Clone(gss), gss...), "0A000", "unsupported frontend protocol 1234.5680: server supports 3.0 to 3.2"},
		{"replication", startupPacket("user", "u", "replication", "database"), "0A000", "replication connections are not allowed through fenceproxy"},
		{"physical replication", startupPacket("user", "u", "replication", "true"), "0A000", "replication connections are not allowed through fenceproxy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := connect(t, s.addr)
			send(t, conn, c.in)
			if strings.HasSuffix(c.name, "twice") {
				expect(t, conn, []byte("N"))
			}
			if text, _ := expectFatal(t, conn, c.code).Get(wire.FieldMessage); string(text) != c.text {
				t.Errorf("got %q", text)
			}
		})
	}
	login(t, s.addr)
	half := connect(t, s.addr)
	send(t, half, startupPacket("user", "u")[:7])
	half.CloseWrite()
	expectFatal(t, half, "08P01")
}

func TestEncryptionRequestsInAnyOrder(t *testing.T) {
	s := startServer(t, fakeUpstream(t, answering), forward, nil)
	ssl, gss := "\x00\x00\x00\x08\x04\xd2\x16\x2f", "\x00\x00\x00\x08\x04\xd2\x16\x30"
	for _, first := range []string{ssl, gss, ssl + gss, gss + ssl} {
		c := connect(t, s.addr)
		send(t, c, append([]byte(first), startupPacket("user", "u")...)) // without waiting for the N
		expect(t, c, append(bytes.Repeat([]byte("N"), len(first)/8), hello...))
	}
}

func TestStartupIsForwardedUntouched(t *testing.T) {
	got := make(chan []byte, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b, _ := io.ReadAll(c)
		c.Close()
		got <- b
	}()
	s := startServer(t, l.Addr().String(), forward, nil)
	packet := startupPacket("user", "u", "options", "-c a.b=1", "user", "v", "_pq_.x", "", "options", "-c a.b=2")
	packet[6], packet[7] = 0x27, 0x0f // 3.9999
	c := connect(t, s.addr)
	send(t, c, append(bytes.Clone(packet), "behind"...))
	c.CloseWrite()
	if b := receive(t, "end of stream at the server", got); !bytes.Equal(b, append(packet, "behind"...)) {
		t.Fatalf("got %q", b)
	}
}

func TestUpstreamDown(t *testing.T) {
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	for _, upstream := range []string{addr, filepath.Join(t.TempDir(), "none")} {
		s := startServer(t, upstream, forward, nil)
		c := connect(t, s.addr)
		send(t, c, startupPacket("user", "u"))
		fields := expectFatal(t, c, "57P03")
		if text, _ := fields.Get(wire.FieldMessage); string(text) != "fenceproxy: cannot connect to upstream" {
			t.Errorf("got %q", text)
		}
		if detail, _ := fields.Get(wire.FieldDetail); !bytes.Contains(detail, []byte("PostgreSQL is not running there")) {
			t.Errorf("got %q", detail)
		}
		poll(t, "no session", func() bool { return s.Sessions() == 0 })
	}
}

func TestLimit(t *testing.T) {
	cancels := make(chan []byte, 1)
	upstream := fakeUpstreamAny(t, func(c *net.TCPConn, start wire.Startup) {
		if start.Kind == wire.StartupCancel {
			cancels <- start.Raw
			return
		}
		answering(c)
	})
	s := startServer(t, upstream, forward, func(cfg *ServerConfig) { cfg.MaxConnections = 2 })
	first := login(t, s.addr)
	login(t, s.addr)
	third := connect(t, s.addr)
	send(t, third, startupPacket("user", "u"))
	if text, _ := expectFatal(t, third, "53300").Get(wire.FieldMessage); string(text) != "sorry, too many clients already" {
		t.Errorf("got %q", text)
	}
	// a cancel passes the full house, with a key of any length
	request := append([]byte("\x00\x00\x00\x2c\x04\xd2\x16\x2e\xff\xff\xff\xff"), bytes.Repeat([]byte("k"), 32)...)
	c := connect(t, s.addr)
	send(t, c, request)
	if got := receive(t, "cancel at the server", cancels); !bytes.Equal(got, request) {
		t.Fatalf("got %q", got)
	}
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil { // closed when the server has closed
		t.Fatalf("got %q, %v", b, err)
	}
	first.Close()
	poll(t, "one session fewer", func() bool { return s.Sessions() == 1 })
	login(t, s.addr)
}

func TestLoginTimeout(t *testing.T) {
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x03")) // asks for a password and waits
		io.Copy(io.Discard, c)
	})
	s := startServer(t, upstream, forward, func(cfg *ServerConfig) { cfg.LoginTimeout = 300 * time.Millisecond })

	silent := connect(t, s.addr)
	slow := connect(t, s.addr) // one byte now and then
	go func() {
		for _, b := range startupPacket("user", "u") {
			if _, err := slow.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	locked := connect(t, s.addr)
	send(t, locked, startupPacket("user", "u"))
	expect(t, locked, []byte("R\x00\x00\x00\x08\x00\x00\x00\x03"))
	expectFatal(t, locked, "57014")
	for _, c := range []net.Conn{silent, slow} {
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Fatalf("got %q", b)
		}
	}
	s.waitEnded(t, EndLoginTimeout, 1)
	if s.refused[RefuseSilent] != 2 {
		t.Errorf("%d silent", s.refused[RefuseSilent])
	}
}

// Connections that come and go in every state leave nothing behind.
func TestStorm(t *testing.T) {
	s := startServer(t, fakeUpstream(t, answering), forward, nil)
	login(t, s.addr).Close()
	poll(t, "no session", func() bool { return s.Sessions() == 0 })
	left := nothingLeft(t)
	for i := range 200 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		packet := startupPacket("user", "u")
		switch i % 5 {
		case 0:
		case 1:
			c.Write(packet[:5])
		case 2:
			c.Write(packet)
		case 3:
			c.Write(append(packet, query("select 1")...))
			c.Read(make([]byte, 5))
			c.(*net.TCPConn).SetLinger(0) // reset
		case 4:
			c.Write([]byte("\x00\x00\x00\x10\x04\xd2\x16\x2e\x00\x00\x00\x01key1"))
		}
		c.Close()
	}
	poll(t, "no session", func() bool { return s.Sessions() == 0 && s.strangers.open.Load() == 0 })
	left()
	login(t, s.addr)
}

func TestFlood(t *testing.T) {
	s := startServer(t, fakeUpstream(t, answering), forward, func(cfg *ServerConfig) { cfg.MaxConnections = 1 })
	most := maxStrangers(1)
	var silent []net.Conn
	for range most {
		silent = append(silent, connect(t, s.addr))
	}
	poll(t, "as many strangers as may be", func() bool { return s.strangers.open.Load() == most })
	if b, err := io.ReadAll(connect(t, s.addr)); len(b) > 0 || err != nil {
		t.Fatalf("got %q, %v", b, err)
	}
	silent[0].Close()
	poll(t, "one stranger fewer", func() bool { return s.strangers.open.Load() == most-1 })
	login(t, s.addr)
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "fp") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, ".s.PGSQL.6432")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(ServerConfig{Current: func() *Config { return &Config{Mode: ModeOff} },
		Upstream: Upstream{Network: "tcp", Address: fakeUpstream(t, answering)}})
	if err != nil {
		t.Fatal(err)
	}
	s.newEngine = func(*Config, Recorder, Startup) machine { return forward() }
	if _, err := s.Listen(path, false); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("took the socket of a living process: %v", err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	if _, err := s.Listen(path, false); err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, startupPacket("user", "u"))
	expect(t, c, hello)
	s.Close()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket file is left behind")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(path, false); err == nil {
		t.Error("replaced a file that is no socket")
	}
}

func TestShutdown(t *testing.T) {
	s := startServer(t, fakeUpstream(t, answering), forward, nil)
	idle, busy, stuck := login(t, s.addr), login(t, s.addr), login(t, s.addr)
	for _, c := range []net.Conn{busy, stuck} {
		send(t, c, query("begin"))
		expect(t, c, inBlock)
	}
	ctx, cut := context.WithCancel(context.Background())
	defer cut()
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx) }()
	expectFatal(t, idle, "57P01")
	if c, err := net.Dial("tcp", s.addr); err == nil {
		c.Close()
		t.Error("still accepts")
	}
	send(t, busy, query("commit"))
	expect(t, busy, readyFor)
	expectFatal(t, busy, "57P01")
	s.waitEnded(t, EndDrained, 2)
	select {
	case err := <-done:
		t.Fatalf("returned with a session in a transaction: %v", err)
	default:
	}
	cut()
	expectFatal(t, stuck, "57P01")
	if err := <-done; err != context.Canceled {
		t.Fatal(err)
	}
	s.waitEnded(t, EndDrainDeadline, 1)
}

// A shutdown is not held up by a client that never reads.
func TestShutdownPastAStalledClient(t *testing.T) {
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(hello)
		b := make([]byte, 64<<10)
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
	s := startServer(t, upstream, forward, nil)
	login(t, s.addr)
	ctx, cut := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cut()
	begin := time.Now()
	s.Shutdown(ctx)
	if took := time.Since(begin); took > 2*stopTime {
		t.Fatalf("took %v", took)
	}
}
