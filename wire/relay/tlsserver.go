package relay

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"

	"github.com/fenceproxy/fenceproxy/wire"
)

// ClientCert is what a client has to show of itself, as the clientcert options of pg_hba.conf.
type ClientCert uint8

const (
	ClientCertNone       ClientCert = iota
	ClientCertVerifyCA              // a certificate of an authority that the source trusts
	ClientCertVerifyFull            // and its common name is the user
)

// ClientTLS is TLS between clients and the proxy, on TCP listeners. Unix sockets are exempt from it, as PostgreSQL's.
type ClientTLS struct {
	Source     *wire.TLSSource // of wire.TLSFiles
	Require    bool            // refuse sessions in plain text. Cancel requests are taken, as PostgreSQL takes them
	ClientCert ClientCert      // for sessions with TLS; clients in plain text have none to show, so it goes with Require
	// Unbound says that no client binds its authentication to the TLS channel. Without it a session whose both legs
	// have TLS is refused unless they present the same certificate: see sameCertificate.
	Unbound bool
}

// clientLeg is the connection to a client before it has a session.
type clientLeg struct {
	net.Conn
	raw         net.Conn             // what was accepted
	secure      *tls.ConnectionState // nil in plain text
	certificate []byte               // what the proxy has presented
}

// encryption is for the log.
func (l *clientLeg) encryption() string {
	if l.secure == nil {
		return "none"
	}
	return tls.VersionName(l.secure.Version)
}

// unix reports whether the client came by a Unix socket.
func (l *clientLeg) unix() bool { return l.LocalAddr().Network() == "unix" }

// readStartup reads packets up to one that asks for something; each kind of encryption is negotiated once (postmaster's
// ProcessStartupPacket). The leg may be a TLS connection then.
func (s *Server) readStartup(l *clientLeg) (wire.Startup, error) {
	var ssl, gss bool
	for first := true; ; first = false {
		start, err := wire.ReadStartup(l)
		if err != nil {
			return start, err
		}
		switch start.Kind {
		case wire.StartupSession, wire.StartupCancel:
			return start, nil
		case wire.StartupTLS:
			if !first || !s.offersTLS(l) {
				return start, wire.NotAStartupPacket()
			}
			err = s.secureDirect(l, start.Raw)
		case wire.StartupSSL:
			if ssl {
				return start, wire.UnsupportedProtocol(start.Version)
			}
			ssl = true
			if l.secure != nil || !s.offersTLS(l) {
				err = say(l, 'N')
				break
			}
			gss = true
			err = s.secure(l)
		case wire.StartupGSSEnc:
			if gss {
				return start, wire.UnsupportedProtocol(start.Version)
			}
			gss = true
			err = say(l, 'N')
		}
		if err != nil {
			return start, err
		}
	}
}

func say(l *clientLeg, answer byte) error {
	_, err := l.Write([]byte{answer})
	return err
}

func (s *Server) offersTLS(l *clientLeg) bool { return s.cfg.ClientTLS != nil && !l.unix() }

// secure begins TLS after an SSLRequest.
func (s *Server) secure(l *clientLeg) error {
	if err := say(l, 'S'); err != nil {
		return err
	}
	plain := l.Conn
	err := s.handshake(l, plain)
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil {
		// What came instead of a handshake is in plain text, and so must be the answer. PostgreSQL finds it before it
		// answers, and says this (CVE-2021-23214).
		l.Conn = plain
		return &wire.Error{Severity: "FATAL", Code: "08P01", Message: "received unencrypted data after SSL request",
			Detail: "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack."}
	}
	return err
}

// secureDirect goes on with a TLS handshake whose first bytes were read.
func (s *Server) secureDirect(l *clientLeg, head []byte) error {
	if err := s.handshake(l, &begun{Conn: l.Conn, head: head}); err != nil {
		return err
	}
	if l.secure.NegotiatedProtocol != wire.ALPN {
		return &wire.Error{Severity: "FATAL", Code: "08P01",
			Message: "received direct SSL connection request without ALPN protocol negotiation extension"}
	}
	return nil
}

// handshakeError is a failed TLS handshake: the client has got an alert or is gone.
type handshakeError struct{ cause error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.cause.Error() }
func (e *handshakeError) Unwrap() error { return e.cause }

func (s *Server) handshake(l *clientLeg, over net.Conn) error {
	config := s.cfg.ClientTLS.Source.Config()
	c := tls.Server(over, config)
	if err := c.HandshakeContext(s.ctx); err != nil {
		return &handshakeError{err}
	}
	state := c.ConnectionState()
	l.Conn, l.secure, l.certificate = &records{c}, &state, config.Certificates[0].Certificate[0]
	return nil
}

// admitLeg decides whether the leg is good enough for the session that is asked for.
func (s *Server) admitLeg(l *clientLeg, start *wire.Startup) *refused {
	want := s.cfg.ClientTLS
	switch {
	case want == nil, l.unix():
		return nil
	case l.secure == nil && want.Require:
		e := fatalError("28000", "this server accepts connections with TLS only", "")
		e.Hint = "Connect with sslmode=require, or better verify-full."
		return &refused{reason: RefuseTLS, words: e}
	case l.secure == nil, want.ClientCert == ClientCertNone:
		return nil
	case len(l.secure.VerifiedChains) == 0:
		return &refused{reason: RefuseTLS, words: fatalError("28000", "connection requires a valid client certificate", "")}
	case want.ClientCert == ClientCertVerifyFull && l.secure.VerifiedChains[0][0].Subject.CommonName != start.User():
		return &refused{reason: RefuseTLS, words: fatalError("28000", "certificate authentication failed for user \""+start.User()+"\"",
			"The common name of the client's certificate is another one.")}
	}
	return nil
}

// sameCertificate decides whether both legs may have TLS. A client that can bind its authentication to the channel
// hashes the certificate that it sees (tls-server-end-point, RFC 5929), PostgreSQL its own: a relay in between passes only
// if they are one. Nor could it hide the mechanism from the client, who would then say that it can bind and was not
// offered to, which PostgreSQL takes for an attack (auth-scram.c read_client_first_message).
func (s *Server) sameCertificate(l *clientLeg, server serverLeg) *refused {
	if l.secure == nil || server.secure == nil || s.cfg.ClientTLS.Unbound {
		return nil
	}
	if bytes.Equal(server.secure.ConnectionState().PeerCertificates[0].Raw, l.certificate) {
		return nil
	}
	return &refused{reason: RefuseTLS, words: fatalError("28000", "fenceproxy and PostgreSQL present different certificates",
		"Clients that bind their password exchange to the certificate could not log in (tls.channel_binding).")}
}

// records writes TLS records of at most 8 KiB, as PostgreSQL does. libpq reads that much at a time, and does not look
// for what is left of a larger record before it waits for the socket (fe-misc.c pqReadData): an application that uses
// it without blocking would wait for ever.
type records struct{ *tls.Conn }

const maxRecord = 8 << 10

func (c *records) Write(b []byte) (n int, err error) {
	for len(b) > maxRecord && err == nil {
		var k int
		k, err = c.Conn.Write(b[:maxRecord])
		n += k
		b = b[k:]
	}
	if err == nil {
		var k int
		k, err = c.Conn.Write(b)
		n += k
	}
	return n, err
}

// begun is a connection of which the first bytes were read already. They are read again.
type begun struct {
	net.Conn
	head []byte
}

func (c *begun) Read(b []byte) (int, error) {
	if len(c.head) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.head)
	c.head = c.head[n:]
	return n, nil
}

// CloseWrite ends the stream to the peer.
func (c *begun) CloseWrite() error {
	closeWrite(c.Conn)
	return nil
}
