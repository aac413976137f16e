package relay

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/tlstest"
	"github.com/fenceproxy/fenceproxy/wire"
)

// tlsUpstream is a server that knows TLS. secure runs sessions with TLS, plain those without; nil answers TLS with N.
func tlsUpstream(t *testing.T, pair tlstest.Pair, secure, plain func(c net.Conn)) string {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{wire.ALPN}}
	return fakeUpstreamAny(t, func(c *net.TCPConn, start wire.Startup) {
		var over net.Conn = c
		switch {
		case start.Kind == wire.StartupTLS && secure != nil:
			over = &begun{Conn: c, head: start.Raw}
		case start.Kind == wire.StartupSSL && secure == nil:
			c.Write([]byte("N"))
			if _, err := wire.ReadStartup(c); err == nil {
				plain(c)
			}
			return
		case start.Kind == wire.StartupSSL:
			c.Write([]byte("S"))
		default:
			plain(c)
			return
		}
		s := tls.Server(over, cfg)
		if _, err := wire.ReadStartup(s); err == nil {
			secure(s)
		}
	})
}

func upstreamTLS(t *testing.T, a *tlstest.Authority, wish TLSWish) *UpstreamTLS {
	t.Helper()
	source, err := wire.NewTLSSource(func() (*tls.Config, error) { return trusting(t, a), nil })
	if err != nil {
		t.Fatal(err)
	}
	return &UpstreamTLS{Wish: wish, Source: source}
}

// says is a server that greets with a text and then reads to the end.
func says(text []byte) func(net.Conn) {
	return func(c net.Conn) {
		c.Write(text)
		io.Copy(io.Discard, c)
	}
}

// What libpq does for the words of sslmode, in front of every kind of server.
func TestUpstreamTLS(t *testing.T) {
	a, stranger := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	good := a.Server(t, "server", "localhost")
	remark := []byte("N\x00\x00\x00\x09SLOG\x00")
	remark[4] = byte(len(remark) - 1)
	secure, plain := append(bytes.Clone(remark), "R\x00\x00\x00\x08\x00\x00\x00\x03"...), []byte("R\x00\x00\x00\x08\x00\x00\x00\x05")
	no := wire.AppendError(nil, fatalError("28000", "no pg_hba.conf entry", ""))
	for _, server := range []struct {
		name                   string
		pair                   tlstest.Pair
		secure, plain          []byte // nil: no TLS
		allow, prefer, require []byte // what the client gets; nil: that PostgreSQL cannot be reached
	}{
		{"with TLS", good, secure, plain, plain, secure, secure},
		{"without TLS", good, nil, plain, plain, plain, nil},
		{"with TLS only", good, secure, no, secure, secure, secure},
		{"without TLS only", good, no, plain, plain, plain, no},
		{"refuses all", good, no, no, no, no, no},
		{"another's certificate", stranger.Server(t, "server", "localhost"), secure, plain, plain, plain, nil},
		{"another name", a.Server(t, "other", "elsewhere"), secure, plain, plain, plain, nil},
	} {
		t.Run(server.name, func(t *testing.T) {
			var withTLS func(net.Conn)
			if server.secure != nil {
				withTLS = says(server.secure)
			}
			address := tlsUpstream(t, server.pair, withTLS, says(server.plain))
			for wish, want := range map[TLSWish][]byte{TLSAllow: server.allow, TLSPrefer: server.prefer, TLSRequire: server.require} {
				s := startServer(t, address, forward, func(cfg *ServerConfig) { cfg.Upstream.TLS = upstreamTLS(t, a, wish) })
				c := connect(t, s.addr)
				send(t, c, startupPacket("user", "u"))
				if want == nil {
					expectFatal(t, c, "57P03")
				} else {
					expect(t, c, want)
				}
			}
		})
	}
	t.Run("direct", func(t *testing.T) {
		s := startServer(t, tlsUpstream(t, good, says(secure), says(plain)), forward, func(cfg *ServerConfig) {
			cfg.Upstream.TLS = upstreamTLS(t, a, TLSRequire)
			cfg.Upstream.TLS.Direct = true
		})
		c := connect(t, s.addr)
		send(t, c, startupPacket("user", "u"))
		expect(t, c, secure)
	})
}

// A session with TLS to the server works in both directions, and ends.
func TestUpstreamTLSSession(t *testing.T) {
	a := tlstest.NewAuthority(t)
	pair := a.Server(t, "server", "localhost")
	talk := func(c net.Conn) {
		c.Write(hello)
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if err != nil || buf[0] == wire.FrontendTerminate {
				return
			}
			if bytes.Contains(buf[:n], []byte("begin")) {
				c.Write(inBlock)
			} else {
				c.Write(readyFor)
			}
		}
	}
	s := startServer(t, tlsUpstream(t, pair, talk, says(nil)), forward, func(cfg *ServerConfig) { cfg.Upstream.TLS = upstreamTLS(t, a, TLSRequire) })
	session := func() {
		c := login(t, s.addr)
		send(t, c, query("begin"))
		expect(t, c, inBlock)
		send(t, c, terminate)
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Fatalf("got %q, %v", b, err)
		}
		c.Close()
	}
	session()
	s.waitEnded(t, EndClient, 1)
	left := nothingLeft(t)
	session()
	session()
	s.waitEnded(t, EndClient, 3)
	left()
}

func TestCancelWithUpstreamTLS(t *testing.T) {
	a := tlstest.NewAuthority(t)
	got := make(chan string, 1)
	kind := func(name string) func(net.Conn) { return func(net.Conn) { got <- name } }
	pair := a.Server(t, "server", "localhost")
	for wish, want := range map[TLSWish]string{TLSAllow: "plain", TLSPrefer: "secure", TLSRequire: "secure"} {
		s := startServer(t, tlsUpstream(t, pair, kind("secure"), kind("plain")), forward, func(cfg *ServerConfig) { cfg.Upstream.TLS = upstreamTLS(t, a, wish) })
		c := connect(t, s.addr)
		send(t, c, []byte("\x00\x00\x00\x10\x04\xd2\x16\x2e\x00\x00\x00\x01key1"))
		if way := receive(t, "cancel at the server", got); way != want {
			t.Errorf("wish %d: went %s", wish, way)
		}
		io.ReadAll(c)
	}
}

// A server, or who poses as one, that does not keep to the protocol.
func TestUpstreamTLSMisbehaves(t *testing.T) {
	a := tlstest.NewAuthority(t)
	for name, answer := range map[string]string{
		// CVE-2021-23222: what was sent in plain text behind the S must not be read as part of the session.
		"plain text behind the S": "S" + string(hello),
		"an error, unproven":      string(wire.AppendError(nil, fatalError("28000", "send your password to mallory", ""))),
		"nonsense":                "X",
		"nothing":                 "",
	} {
		t.Run(name, func(t *testing.T) {
			upstream := fakeUpstreamAny(t, func(c *net.TCPConn, start wire.Startup) {
				c.Write([]byte(answer))
				if answer != "" {
					io.Copy(io.Discard, c)
				}
			})
			s := startServer(t, upstream, forward, func(cfg *ServerConfig) { cfg.Upstream.TLS = upstreamTLS(t, a, TLSRequire) })
			c := connect(t, s.addr)
			send(t, c, startupPacket("user", "u"))
			if text, _ := expectFatal(t, c, "57P03").Get(wire.FieldDetail); strings.Contains(string(text), "mallory") {
				t.Errorf("got %q", text)
			}
			poll(t, "no session", func() bool { return s.Sessions() == 0 })
		})
	}
	for name, greeting := range map[string]string{
		"endless":        "R\x3f\xff\xff\xff\x00\x00\x00\x0a",
		"remarks only":   strings.Repeat("N\x00\x00\x00\x05\x00", 1000),
		"no length":      "R\x00\x00\x00\x00",
		"half a message": "R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM",
		"not a list":     "R\x00\x00\x00\x0b\x00\x00\x00\x0aSCR",
	} {
		t.Run(name, func(t *testing.T) {
			address := tlsUpstream(t, a.Server(t, "server", "localhost"), func(c net.Conn) { c.Write([]byte(greeting)) }, says(nil))
			s := startServer(t, address, forward, func(cfg *ServerConfig) { cfg.Upstream.TLS = upstreamTLS(t, a, TLSRequire) })
			c := connect(t, s.addr)
			send(t, c, startupPacket("user", "u"))
			expectFatal(t, c, "57P03")
		})
	}
}

// What a client is offered of the server's mechanisms, by the four ways of two legs.
func TestChannelBindingOffer(t *testing.T) {
	const both = "R\x00\x00\x00\x2a\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00"
	const one = "R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"
	const only = "R\x00\x00\x00\x1c\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00\x00"
	a := tlstest.NewAuthority(t)
	shared, other := a.Server(t, "shared", "localhost"), a.Server(t, "other", "localhost")
	pieces := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			for i := range len(text) {
				c.Write([]byte(text[i : i+1]))
			}
			io.Copy(io.Discard, c)
		}
	}
	for _, tc := range []struct {
		name           string
		client, server bool // TLS
		unbound        bool
		pair           tlstest.Pair // of the proxy
		said, want     string
	}{
		{"plain, plain", false, false, false, shared, one, one},
		{"TLS, plain", true, false, false, shared, one, one},
		{"plain, TLS", false, true, false, shared, both, one},
		{"plain, TLS, behind remarks", false, true, false, shared, "N\x00\x00\x00\x05\x00" + both, "N\x00\x00\x00\x05\x00" + one},
		{"plain, TLS, nothing else", false, true, false, shared, only, "57P03"},
		{"plain, TLS, no password", false, true, false, shared, string(hello), string(hello)},
		{"TLS, TLS, one certificate", true, true, false, shared, both, both},
		{"TLS, TLS, two certificates", true, true, false, other, both, "28000"},
		{"TLS, TLS, two certificates, no binding", true, true, true, other, both, both},
	} {
		t.Run(tc.name, func(t *testing.T) {
			address := tlsUpstream(t, shared, pieces(tc.said), pieces(tc.said))
			source, err := wire.NewTLSSource(wire.TLSFiles{Cert: tc.pair.Cert, Key: tc.pair.Key}.Load)
			if err != nil {
				t.Fatal(err)
			}
			s := startServer(t, address, forward, func(cfg *ServerConfig) {
				cfg.ClientTLS = &ClientTLS{Source: source, Unbound: tc.unbound}
				if tc.server {
					cfg.Upstream.TLS = upstreamTLS(t, a, TLSRequire)
				}
			})
			var c net.Conn = connect(t, s.addr)
			if tc.client {
				c = secured(t, s.addr, trusting(t, a))
			}
			send(t, c, startupPacket("user", "u"))
			if len(tc.want) == 5 {
				expectFatal(t, c, tc.want)
				return
			}
			expect(t, c, []byte(tc.want))
		})
	}
}
