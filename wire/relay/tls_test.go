package relay

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/tlstest"
	"github.com/fenceproxy/fenceproxy/wire"
)

var sslRequest = wire.SSLRequest

// clientTLS is the client leg's TLS with a certificate of a.
func clientTLS(t *testing.T, a *tlstest.Authority, change func(*ClientTLS)) func(*ServerConfig) {
	t.Helper()
	pair := a.Server(t, "proxy", "localhost", "127.0.0.1")
	source, err := wire.NewTLSSource(wire.TLSFiles{Cert: pair.Cert, Key: pair.Key, ClientCA: a.File}.Load)
	if err != nil {
		t.Fatal(err)
	}
	c := &ClientTLS{Source: source}
	if change != nil {
		change(c)
	}
	return func(cfg *ServerConfig) { cfg.ClientTLS = c }
}

func roots(t *testing.T, a *tlstest.Authority) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(a.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool
}

func trusting(t *testing.T, a *tlstest.Authority) *tls.Config {
	return &tls.Config{RootCAs: roots(t, a), ServerName: "localhost", NextProtos: []string{wire.ALPN}}
}

// secured asks for TLS and does the handshake.
func secured(t *testing.T, addr string, cfg *tls.Config) *tls.Conn {
	t.Helper()
	c := connect(t, addr)
	send(t, c, sslRequest)
	expect(t, c, []byte("S"))
	return tls.Client(c, cfg)
}

func loginTLS(t *testing.T, c *tls.Conn) {
	t.Helper()
	send(t, c, startupPacket("user", "u"))
	expect(t, c, hello)
	send(t, c, query("begin"))
	expect(t, c, inBlock)
}

func TestTLSSession(t *testing.T) {
	a := tlstest.NewAuthority(t)
	s := startServer(t, fakeUpstream(t, answering), forward, clientTLS(t, a, nil))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cfg := trusting(t, a)
		cfg.MinVersion, cfg.MaxVersion = version, version
		loginTLS(t, secured(t, s.addr, cfg))
	}
	noALPN := trusting(t, a) // clients before PostgreSQL 17 offer none
	noALPN.NextProtos = nil
	loginTLS(t, secured(t, s.addr, noALPN))
	loginTLS(t, tls.Client(connect(t, s.addr), trusting(t, a))) // direct

	// GSS first, as libpq with a Kerberos ticket
	c := connect(t, s.addr)
	send(t, c, []byte("\x00\x00\x00\x08\x04\xd2\x16\x30"))
	expect(t, c, []byte("N"))
	send(t, c, sslRequest)
	expect(t, c, []byte("S"))
	loginTLS(t, tls.Client(c, trusting(t, a)))
	login(t, s.addr) // allow: plain text as well
}

func TestTLSRefused(t *testing.T) {
	a := tlstest.NewAuthority(t)
	s := startServer(t, fakeUpstream(t, answering), forward, clientTLS(t, a, func(c *ClientTLS) { c.Require = true }))

	t.Run("plain text", func(t *testing.T) {
		c := connect(t, s.addr)
		send(t, c, startupPacket("user", "u"))
		expectFatal(t, c, "28000")
	})
	t.Run("TLS 1.1", func(t *testing.T) {
		cfg := trusting(t, a)
		cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if err := secured(t, s.addr, cfg).Handshake(); err == nil {
			t.Fatal("accepted")
		}
	})
	t.Run("another protocol by ALPN", func(t *testing.T) {
		cfg := trusting(t, a)
		cfg.NextProtos = []string{"imap"}
		if err := secured(t, s.addr, cfg).Handshake(); err == nil {
			t.Fatal("accepted")
		}
	})
	t.Run("direct without ALPN", func(t *testing.T) {
		cfg := trusting(t, a)
		cfg.NextProtos = nil
		c := tls.Client(connect(t, s.addr), cfg)
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		expectFatal(t, c, "08P01")
	})
	// CVE-2021-23214: what was sent in plain text must not be read as part of the session.
	t.Run("plain text behind the SSLRequest", func(t *testing.T) {
		c := connect(t, s.addr)
		send(t, c, append(bytes.Clone(sslRequest), startupPacket("user", "mallory")...))
		expect(t, c, []byte("S"))
		if text, _ := expectFatal(t, c, "08P01").Get(wire.FieldMessage); string(text) != "received unencrypted data after SSL request" {
			t.Errorf("got %q", text)
		}
	})
	t.Run("plain text behind the handshake", func(t *testing.T) {
		c := secured(t, s.addr, trusting(t, a))
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		c.NetConn().Write(startupPacket("user", "mallory"))
		if b, err := io.ReadAll(c); len(b) > 0 && b[0] != wire.BackendErrorResponse || err == nil && len(b) == 0 {
			t.Fatalf("got %q %v", b, err)
		}
	})
	for name, packet := range map[string][]byte{"SSLRequest inside": sslRequest, "GSSENCRequest inside": []byte("\x00\x00\x00\x08\x04\xd2\x16\x30")} {
		t.Run(name, func(t *testing.T) {
			c := secured(t, s.addr, trusting(t, a))
			send(t, c, packet)
			expectFatal(t, c, "0A000")
		})
	}
	t.Run("TLS inside", func(t *testing.T) {
		c := secured(t, s.addr, trusting(t, a))
		send(t, c, []byte("\x16\x03\x01\x02\x00"))
		expectFatal(t, c, "08P01")
	})
	t.Run("direct TLS behind an answer", func(t *testing.T) {
		c := connect(t, s.addr)
		send(t, c, []byte("\x00\x00\x00\x08\x04\xd2\x16\x30"))
		expect(t, c, []byte("N"))
		send(t, c, []byte("\x16\x03\x01\x02\x00"))
		expectFatal(t, c, "08P01")
	})
	plain := startServer(t, fakeUpstream(t, answering), forward, nil)
	t.Run("direct, where there is none", func(t *testing.T) {
		c := connect(t, plain.addr)
		send(t, c, []byte("\x16\x03\x01\x02\x00"))
		expectFatal(t, c, "08P01")
	})
	loginTLS(t, secured(t, s.addr, trusting(t, a)))
}

func TestClientCertificates(t *testing.T) {
	a, stranger := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	with := func(p tlstest.Pair) *tls.Config {
		cfg := trusting(t, a)
		pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		return cfg
	}
	for kind, name := range map[ClientCert]string{ClientCertVerifyCA: "verify-ca", ClientCertVerifyFull: "verify-full"} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, fakeUpstream(t, answering), forward, clientTLS(t, a, func(c *ClientTLS) { c.Require, c.ClientCert = true, kind }))
			loginTLS(t, secured(t, s.addr, with(a.Client(t, "u"))))

			none := secured(t, s.addr, trusting(t, a))
			send(t, none, startupPacket("user", "u"))
			if text, _ := expectFatal(t, none, "28000").Get(wire.FieldMessage); string(text) != "connection requires a valid client certificate" {
				t.Errorf("got %q", text)
			}
			other := secured(t, s.addr, with(a.Client(t, "v")))
			send(t, other, startupPacket("user", "u"))
			if kind == ClientCertVerifyFull {
				expectFatal(t, other, "28000")
			} else {
				expect(t, other, hello)
			}
			foreign := secured(t, s.addr, with(stranger.Client(t, "u")))
			foreign.Write(startupPacket("user", "u"))
			if b, err := io.ReadAll(foreign); len(b) > 0 || err == nil {
				t.Errorf("a stranger's certificate: %q, %v", b, err)
			}
			server := secured(t, s.addr, with(a.Server(t, "u", "u"))) // signed for another purpose
			server.Write(startupPacket("user", "u"))
			if b, err := io.ReadAll(server); len(b) > 0 || err == nil {
				t.Errorf("a server's certificate: %q, %v", b, err)
			}
		})
	}
}

func TestCancelWithTLS(t *testing.T) {
	a := tlstest.NewAuthority(t)
	cancels := make(chan []byte, 1)
	upstream := fakeUpstreamAny(t, func(c *net.TCPConn, start wire.Startup) { cancels <- start.Raw })
	s := startServer(t, upstream, forward, clientTLS(t, a, func(c *ClientTLS) { c.Require, c.ClientCert = true, ClientCertVerifyFull }))
	request := []byte("\x00\x00\x00\x10\x04\xd2\x16\x2e\x00\x00\x00\x01key1")
	secure := secured(t, s.addr, trusting(t, a))
	for _, c := range []net.Conn{secure, connect(t, s.addr)} { // libpq before 17 cancels in plain text, and PostgreSQL lets it
		send(t, c, request)
		if got := receive(t, "cancel at the server", cancels); !bytes.Equal(got, request) {
			t.Fatalf("got %q", got)
		}
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Fatalf("got %q, %v", b, err)
		}
	}
}

// A client that stops in the middle of its handshake is gone after the login timeout.
func TestHandshakeTimeout(t *testing.T) {
	a := tlstest.NewAuthority(t)
	limit := clientTLS(t, a, nil)
	s := startServer(t, fakeUpstream(t, answering), forward, func(cfg *ServerConfig) {
		limit(cfg)
		cfg.LoginTimeout = 200 * time.Millisecond
	})
	for _, head := range []string{"\x16\x03\x01\x02\x00\x01", string(sslRequest), string(sslRequest) + "\x16\x03\x01"} {
		c := connect(t, s.addr)
		send(t, c, []byte(head))
		if b, err := io.ReadAll(c); err != nil || strings.Trim(string(b), "S") != "" {
			t.Errorf("%q: got %q, %v", head, b, err)
		}
	}
	poll(t, "no strangers", func() bool { return s.strangers.open.Load() == 0 })
}

func TestUnixSocketIsExemptFromTLS(t *testing.T) {
	a := tlstest.NewAuthority(t)
	s := startServer(t, fakeUpstream(t, answering), forward, clientTLS(t, a, func(c *ClientTLS) { c.Require = true }))
	path := t.TempDir() + "/s"
	if len(path) > 100 {
		t.Skip("the path of the socket is too long here")
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go s.accept(listener{Listener: l})
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send(t, c, sslRequest)
	expect(t, c, []byte("N"))
	send(t, c, startupPacket("user", "u"))
	expect(t, c, hello)
}

// New files are for the next handshake; files that are no good change nothing.
func TestReloadOfCertificates(t *testing.T) {
	a, b := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	pair, next := a.Server(t, "proxy", "localhost"), b.Server(t, "proxy", "localhost")
	source, err := wire.NewTLSSource(wire.TLSFiles{Cert: pair.Cert, Key: pair.Key}.Load)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, fakeUpstream(t, answering), forward, func(cfg *ServerConfig) { cfg.ClientTLS = &ClientTLS{Source: source} })
	old := secured(t, s.addr, trusting(t, a))
	loginTLS(t, old)

	replace := func(to, from string) {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(pair.Cert, next.Cert) // the key is still the former one
	if err := source.Reload(); err == nil {
		t.Fatal("took a certificate and another one's key")
	}
	loginTLS(t, secured(t, s.addr, trusting(t, a)))
	replace(pair.Key, next.Key)
	if err := source.Reload(); err != nil {
		t.Fatal(err)
	}
	loginTLS(t, secured(t, s.addr, trusting(t, b)))
	send(t, old, query("select 1"))
	expect(t, old, readyFor)
	var unknown x509.UnknownAuthorityError
	if err := secured(t, s.addr, trusting(t, a)).Handshake(); !errors.As(err, &unknown) {
		t.Fatalf("got %v", err)
	}
}

// recordSizes notes the payload of each TLS record that is read.
type recordSizes struct {
	net.Conn
	head []byte
	left int
	max  int
}

func (r *recordSizes) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	for _, c := range b[:n] {
		if r.left > 0 {
			r.left--
			continue
		}
		if r.head = append(r.head, c); len(r.head) == 5 {
			r.left = int(r.head[3])<<8 | int(r.head[4])
			r.max = max(r.max, r.left)
			r.head = r.head[:0]
		}
	}
	return n, err
}

// supavisor#993: a libpq that does not block hangs when a record is larger than what it reads at a time.
func TestRecordsAreNotLarge(t *testing.T) {
	a := tlstest.NewAuthority(t)
	const size = 1 << 20
	s := startServer(t, fakeUpstream(t, func(c *net.TCPConn) { c.Write(make([]byte, size)) }), forward, clientTLS(t, a, nil))
	c := connect(t, s.addr)
	send(t, c, sslRequest)
	expect(t, c, []byte("S"))
	sizes := &recordSizes{Conn: c}
	secure := tls.Client(sizes, trusting(t, a))
	send(t, secure, startupPacket("user", "u"))
	if b, err := io.ReadAll(secure); len(b) != size || err != nil {
		t.Fatalf("got %d bytes, %v", len(b), err)
	}
	if sizes.max > 8<<10+256 {
		t.Errorf("a record of %d bytes", sizes.max)
	}
}
