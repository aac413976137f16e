package relay

import (
	"context"
	"errors"
	"io"
	"net"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/wire"
)

// Verifiers has what proofs of passwords are checked against. Its methods may be called concurrently.
type Verifiers interface {
	// Verifier is that of a user; nil when there is none by which the user could log in. It may be a remembered one. The
	// error says that nobody could be asked.
	Verifier(ctx context.Context, user string) (*wire.ScramVerifier, error)
	// Fresh is Verifier without what is remembered.
	Fresh(ctx context.Context, user string) (*wire.ScramVerifier, error)
	// Doubt says that a login has failed in a way that an outdated verifier would explain.
	Doubt(user string)
}

// clientLogin is one login that the proxy terminates: the client proves to the proxy that it knows the password, and the proxy
// proves to PostgreSQL with the key that it finds in the client's proof.
//
// PostgreSQL is asked for its challenge before the client gets one. It tells the salt of the moment, which is a new one
// with each password: so a remembered verifier that is outdated (another password, VALID UNTIL, role dropped) is noticed in
// time, and a user who cannot log in gets the very challenge that PostgreSQL would have made up.
type clientLogin struct {
	*Server
	ctx      context.Context
	client   *clientLeg
	server   *serverLeg
	user     string
	said     greeting
	first    int               // where the server's first request begins
	kind     uint32            // and what it asks for
	upstream *wire.ScramClient // nil when the server wants something else
	verifier *wire.ScramVerifier
}

// authenticate logs the client in, to the proxy and to the server, when nil is returned. The server's next message is the
// first one behind its AuthenticationOk then, or that, and the client has been told what comes before.
func (s *Server) authenticate(ctx context.Context, l *clientLeg, server *serverLeg, start *wire.Startup) *refused {
	defer interruptible(ctx, l)()
	g := &clientLogin{Server: s, ctx: ctx, client: l, server: server, user: start.User()}
	for _, step := range []func() *refused{g.greet, g.challenge, g.findVerifier} {
		if r := step(); r != nil {
			return r
		}
	}
	answer, key, r := g.exchange()
	if r == nil {
		r = g.forward(key)
	}
	if r != nil {
		return r
	}
	words := wire.AppendAuthentication(nil, wire.AuthenticationSASLFinal, answer)
	if g.kind == wire.AuthenticationOK { // it was read already
		words = append(words, g.said.bytes[g.said.last:]...)
	}
	if _, err := l.Write(words); err != nil {
		return g.clientGone(err)
	}
	if b, ok := server.Conn.(*begun); ok && len(b.head) == 0 {
		server.Conn = b.Conn
	}
	return nil
}

// greet reads the server's first request.
func (g *clientLogin) greet() *refused {
	var err error
	if g.said, err = hear(g.ctx, g.server); err != nil {
		return g.serverGone(err)
	}
	if g.said.typ == wire.BackendErrorResponse {
		return g.serverRefuses()
	}
	kind, data, ok := wire.Authentication(g.said.bytes[g.said.last+wire.HeaderLen:])
	if !ok || g.said.typ != wire.BackendAuthentication {
		return g.serverGone(errNotServer)
	}
	g.first, g.kind = g.said.last, kind
	if kind == wire.AuthenticationSASL {
		offered, ok := wire.SASLMechanisms(data)
		if !ok {
			return g.serverGone(errNotServer)
		}
		g.upstream = wire.NewScramClient(offered, g.server.binding())
	}
	return nil
}

// challenge gets the server's challenge.
func (g *clientLogin) challenge() *refused {
	if g.upstream == nil {
		return nil
	}
	m := wire.AppendSASLInitialResponse(nil, g.upstream.Mechanism(), g.upstream.First())
	data, r := g.ask(m, wire.AuthenticationSASLContinue)
	if r != nil {
		return r
	}
	if err := g.upstream.Challenge(data); err != nil {
		return g.serverGone(err)
	}
	return nil
}

func (g *clientLogin) findVerifier() *refused {
	v, err := g.cfg.Verifiers.Verifier(g.ctx, g.user)
	if err == nil && v != nil && g.upstream != nil && !g.upstream.Fits(v) {
		v, err = g.cfg.Verifiers.Fresh(g.ctx, g.user)
	}
	if err != nil {
		if isTimeout(err) || errors.Is(err, context.DeadlineExceeded) || g.ctx.Err() != nil {
			err = context.DeadlineExceeded
		}
		g.log.Error("cannot look up the verifier of a password", zap.String("user", g.user), zap.Error(err))
		return &refused{reason: RefuseUpstream, words: fatalError("57P03", "fenceproxy: cannot look up the user's password",
			"The query for it (auth_query) failed. The log of fenceproxy has the reason.")}
	}
	g.verifier = v
	return nil
}

// forward proves the client's key to the server.
func (g *clientLogin) forward(key wire.ScramKey) *refused {
	switch {
	case g.kind == wire.AuthenticationOK:
		return nil
	case g.upstream == nil:
		g.log.Error("PostgreSQL asks for something else than a SCRAM proof: auth scram needs scram-sha-256 in pg_hba.conf",
			zap.String("user", g.user), zap.String("asks_for", requestName(g.kind)))
		return &refused{reason: RefuseLogin, words: fatalError("28000", "fenceproxy cannot log in to PostgreSQL for user \""+g.user+"\"",
			"PostgreSQL asks for "+requestName(g.kind)+"; fenceproxy can answer scram-sha-256 only.")}
	case !g.upstream.Fits(g.verifier):
		g.log.Error("PostgreSQL has another verifier for the user than auth_query or auth_file: salt or iterations differ", zap.String("user", g.user))
		return &refused{reason: RefuseLogin, words: fatalError("28000", "fenceproxy cannot log in to PostgreSQL for user \""+g.user+"\"",
			"Its password verifier is not the one that PostgreSQL has.")}
	}
	data, r := g.ask(wire.AppendSASLResponse(nil, g.upstream.Final(key)), wire.AuthenticationSASLFinal)
	if r != nil {
		g.cfg.Verifiers.Doubt(g.user)
		return r
	}
	if err := g.upstream.Verify(data, g.verifier.ServerKey); err != nil {
		return g.serverGone(err)
	}
	return nil
}

// ask sends a message to the server and reads the answer, which must be an Authentication message of a kind.
func (g *clientLogin) ask(message []byte, kind uint32) (data []byte, r *refused) {
	defer interruptible(g.ctx, g.server)()
	if _, err := g.server.Write(message); err != nil {
		return nil, g.serverGone(err)
	}
	said, err := hear(g.ctx, g.server)
	if err != nil {
		return nil, g.serverGone(err)
	}
	g.said.last = len(g.said.bytes) + said.last
	g.said.bytes = append(g.said.bytes, said.bytes...)
	if said.typ == wire.BackendErrorResponse {
		return nil, g.serverRefuses()
	}
	got, data, ok := wire.Authentication(said.bytes[said.last+wire.HeaderLen:])
	if said.typ != wire.BackendAuthentication || !ok || got != kind {
		return nil, g.serverGone(errNotServer)
	}
	return data, nil
}

// serverRefuses passes the server's error on.
func (g *clientLogin) serverRefuses() *refused {
	fields := wire.ErrorFields(g.said.bytes[g.said.last+wire.HeaderLen:])
	code, _ := fields.Get(wire.FieldCode)
	text, _ := fields.Get(wire.FieldMessage)
	return &refused{reason: RefuseLogin, words: fatalError(string(code), string(text), ""), raw: g.said.bytes[g.said.last:]}
}

func (g *clientLogin) serverGone(err error) *refused {
	if g.accepting.Err() != nil {
		return &refused{reason: RefuseDraining, words: shuttingDownAtLogin}
	}
	g.log.Error("cannot log in to upstream", zap.String("upstream", g.cfg.Upstream.Address), zap.String("user", g.user), zap.Error(err))
	return &refused{reason: RefuseUpstream, words: unreachable(err)}
}

// clientGone is for a client that cannot be read from.
func (g *clientLogin) clientGone(err error) *refused {
	switch {
	case g.accepting.Err() != nil:
		return &refused{reason: RefuseDraining, words: shuttingDownAtLogin}
	case isTimeout(err):
		return &refused{reason: RefuseLogin, words: loginTimeout.words}
	}
	return &refused{reason: RefuseLogin, words: fatalError("08006", "the client has closed its connection", "")}
}

// binding is what a client of the server's certificate binds to; nil without TLS.
func (l *serverLeg) binding() []byte {
	if l.secure == nil {
		return nil
	}
	return wire.EndPointBinding(l.secure.ConnectionState().PeerCertificates[0])
}

// requestNames are the other kinds of the protocol (protocol.h AUTH_REQ_*).
var requestNames = map[uint32]string{2: "Kerberos V5", 3: "a password in clear text", 5: "an MD5 hash", 7: "GSSAPI", 9: "SSPI", wire.AuthenticationSASL: "another SASL mechanism"}

func requestName(kind uint32) string {
	if n, ok := requestNames[kind]; ok {
		return n
	}
	return "something unknown"
}

var errTooLong = errors.New("a message that is too long")

// readResponse reads one message of the client in a SASL exchange (auth-sasl.c CheckSASLAuth).
func readResponse(c net.Conn) ([]byte, error) {
	var header [wire.HeaderLen]byte
	if _, err := io.ReadFull(c, header[:]); err != nil {
		return nil, err
	}
	typ, size, ok := wire.Frame(header[:])
	if typ != wire.FrontendPassword {
		return nil, violation("expected SASL response, got message type %d", typ)
	}
	if !ok || size-wire.HeaderLen > wire.MaxSASLMessage {
		return nil, errTooLong
	}
	b := make([]byte, size-wire.HeaderLen)
	_, err := io.ReadFull(c, b)
	return b, err
}
