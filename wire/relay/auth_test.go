package relay

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/wire"
)

// zeroKeys is the verifier of keys that are all zero, which the tests' clients cannot prove.
var zeroKeys = "SCRAM-SHA-256$4096:" + base64.StdEncoding.EncodeToString([]byte("salt")) + "$" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + ":" +
	base64.StdEncoding.EncodeToString(make([]byte, 32))

// verifiersFunc gives every user the same answer.
type verifiersFunc func() (*wire.ScramVerifier, error)

func (f verifiersFunc) Verifier(context.Context, string) (*wire.ScramVerifier, error) { return f() }
func (f verifiersFunc) Fresh(context.Context, string) (*wire.ScramVerifier, error)    { return f() }
func (f verifiersFunc) Doubt(string)                                                  {}

func terminating(cfg *ServerConfig) {
	cfg.Verifiers = verifiersFunc(func() (*wire.ScramVerifier, error) { return wire.ParseScramVerifier(zeroKeys) })
}

const offer = "R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"

// Whatever the server says first, a client gets no session without a proof.
func TestTerminatedLoginWithAServerThatLies(t *testing.T) {
	for name, tc := range map[string]struct{ says, code string }{
		"ready at once":            {"Z\x00\x00\x00\x05I", "57P03"},
		"an error, and then ready": {"E\x00\x00\x00\x12SERROR\x00C42000\x00\x00R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I", "42000"},
		"no message":               {"HTTP/1.1 400 Bad Request\r\n", "57P03"},
		"nothing":                  {"", "57P03"},
		"challenge of another":     {offer + "R\x00\x00\x00\x17\x00\x00\x00\x0br=x,s=AAAA,i=1", "57P03"},
		"OK in place of challenge": {offer + "R\x00\x00\x00\x08\x00\x00\x00\x00", "57P03"},
		"a list without end":       {"R\x00\x00\x00\x0b\x00\x00\x00\x0aSCR", "57P03"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, fakeUpstream(t, func(c *net.TCPConn) { c.Write([]byte(tc.says)) }), forward, terminating)
			c := connect(t, s.addr)
			send(t, c, startupPacket("user", "u"))
			b, err := io.ReadAll(c)
			_, size, _ := wire.Frame(append(b, make([]byte, wire.HeaderLen)...))
			if err != nil || len(b) != size || b[0] != wire.BackendErrorResponse || !strings.Contains(string(b), "C"+tc.code) {
				t.Errorf("got %q, %v, want one error, %s", b, err, tc.code)
			}
		})
	}
	t.Run("OK", func(t *testing.T) {
		s := startServer(t, fakeUpstream(t, answering), forward, terminating)
		c := connect(t, s.addr)
		send(t, c, startupPacket("user", "u"))
		expect(t, c, []byte(offer))
		send(t, c, wire.AppendSASLInitialResponse(nil, wire.ScramSHA256, []byte("n,,n=,r=abc")))
		var header [wire.HeaderLen]byte
		if _, err := io.ReadFull(c, header[:]); err != nil || header[0] != wire.BackendAuthentication {
			t.Fatalf("got %q %v", header, err)
		}
		_, size, _ := wire.Frame(header[:])
		body := make([]byte, size-wire.HeaderLen)
		io.ReadFull(c, body)
		nonce := strings.TrimPrefix(strings.Split(string(body[4:]), ",")[0], "r=")
		send(t, c, wire.AppendSASLResponse(nil, []byte("c=biws,r="+nonce+",p="+base64.StdEncoding.EncodeToString(make([]byte, 32)))))
		expectFatal(t, c, "28P01")
	})
}

// A client that says nothing more is told so in time, a drain does not wait for it, and nothing of it is left.
func TestTerminatedLoginThatStops(t *testing.T) {
	silent := func(c *net.TCPConn) { c.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00")); c.Read(make([]byte, 1)) }
	t.Run("timeout", func(t *testing.T) {
		s := startServer(t, fakeUpstream(t, silent), forward, func(cfg *ServerConfig) { terminating(cfg); cfg.LoginTimeout = 200 * time.Millisecond })
		c := connect(t, s.addr)
		send(t, c, startupPacket("user", "u"))
		expect(t, c, []byte(offer))
		expectFatal(t, c, "57014")
		poll(t, "no session", func() bool { return s.Sessions() == 0 && s.strangers.open.Load() == 0 })
	})
	t.Run("drain", func(t *testing.T) {
		s := startServer(t, fakeUpstream(t, silent), forward, terminating)
		c := connect(t, s.addr)
		send(t, c, startupPacket("user", "u"))
		expect(t, c, []byte(offer))
		ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		stopped := make(chan error, 1)
		go func() { stopped <- s.Shutdown(ctx) }()
		expectFatal(t, c, "57P03")
		c.Close()
		if err := receive(t, "end of the drain", stopped); err != nil {
			t.Error(err)
		}
	})
	t.Run("the client leaves", func(t *testing.T) {
		s := startServer(t, fakeUpstream(t, silent), forward, terminating)
		c := connect(t, s.addr)
		send(t, c, startupPacket("user", "u"))
		expect(t, c, []byte(offer))
		c.Close()
		poll(t, "no session", func() bool { return s.Sessions() == 0 && s.strangers.open.Load() == 0 })
	})
	t.Run("nobody knows verifiers", func(t *testing.T) {
		s := startServer(t, fakeUpstream(t, silent), forward, func(cfg *ServerConfig) {
			cfg.Verifiers = verifiersFunc(func() (*wire.ScramVerifier, error) { return nil, errors.New("down") })
		})
		c := connect(t, s.addr)
		send(t, c, startupPacket("user", "u"))
		expectFatal(t, c, "57P03")
	})
}
