package relay

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"

	"github.com/fenceproxy/fenceproxy/wire"
)

// exchange has the client prove that it knows the password. The answer to it is not said yet.
func (g *clientLogin) exchange() (answer []byte, key wire.ScramKey, r *refused) {
	scram := wire.NewScramServer(g.client.binding())
	// The server's remarks before its first request come first here too, one of them may be NegotiateProtocolVersion.
	g.tell(wire.AppendSASL(g.remarks(), scram.Mechanisms()))
	first, err := g.firstResponse(scram)
	if err == nil {
		err = scramError(scram.First(first))
	}
	if err != nil {
		return nil, key, g.clientFailed(err)
	}
	g.tell(wire.AppendAuthentication(nil, wire.AuthenticationSASLContinue, g.challengeFor(scram)))
	final, err := readResponse(g.client)
	if err != nil {
		return nil, key, g.clientFailed(err)
	}
	answer, key, proven, e := scram.Final(final)
	switch {
	case e != nil:
		return nil, key, g.clientFailed(e)
	case !proven:
		if g.verifier != nil && g.upstream == nil {
			g.cfg.Verifiers.Doubt(g.user)
		}
		why := "wrong password"
		if g.verifier == nil {
			why = "no such user, no SCRAM verifier, or expired"
		}
		return nil, key, g.notProven(why)
	}
	return answer, key, nil
}

// firstResponse is the client-first-message. A client may leave it out at first, and is asked for it then.
func (g *clientLogin) firstResponse(scram *wire.ScramServer) ([]byte, error) {
	b, err := readResponse(g.client)
	if err != nil {
		return nil, err
	}
	mechanism, response, present, e := wire.SASLInitialResponse(b)
	if e == nil {
		e = scram.Begin(mechanism)
	}
	if e != nil || present {
		return response, scramError(e)
	}
	g.tell(wire.AppendAuthentication(nil, wire.AuthenticationSASLContinue, nil))
	return readResponse(g.client)
}

func (g *clientLogin) challengeFor(scram *wire.ScramServer) []byte {
	switch {
	case g.verifier != nil:
		return scram.Challenge(g.verifier)
	case g.upstream != nil:
		return scram.Mock(g.upstream.Derivation())
	}
	return scram.Mock(mockSalt(g.user), mockIterations)
}

// mockIterations is PostgreSQL's default (SCRAM_SHA_256_DEFAULT_ITERATIONS).
const mockIterations = 4096

// mockSalt is the same whenever somebody asks for the user, as a real one (auth-scram.c scram_mock_salt).
func mockSalt(user string) []byte {
	h := hmac.New(sha256.New, mockSecret())
	h.Write([]byte(user))
	return h.Sum(nil)[:16]
}

var mockSecret = sync.OnceValue(func() []byte {
	secret := make([]byte, 32)
	rand.Read(secret)
	return secret
})

// remarks are what the server has said before its first request.
func (g *clientLogin) remarks() []byte { return append([]byte(nil), g.said.bytes[:g.first]...) }

// tell writes to the client. That it is gone is noticed by the next read.
func (g *clientLogin) tell(b []byte) { g.client.Write(b) }

func (g *clientLogin) clientFailed(err error) *refused {
	var words *wire.Error
	if errors.As(err, &words) {
		return &refused{reason: RefuseLogin, words: words}
	}
	if err == errTooLong { // PostgreSQL takes it for a failure like any other
		return g.notProven("invalid message length")
	}
	return g.clientGone(err)
}

func (g *clientLogin) notProven(why string) *refused {
	return &refused{reason: RefuseLogin, why: why, words: fatalError("28P01", "password authentication failed for user \""+g.user+"\"", "")}
}

// scramError is an error that is nil when e is.
func scramError(e *wire.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func violation(format string, args ...any) *wire.Error {
	return fatalError("08P01", fmt.Sprintf(format, args...), "")
}

// binding is what clients of our certificate bind to; nil without TLS.
func (l *clientLeg) binding() []byte {
	if l.secure == nil {
		return nil
	}
	c, err := x509.ParseCertificate(l.certificate)
	if err != nil {
		return nil
	}
	return wire.EndPointBinding(c)
}
