package auth

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/wire"
)

// converse says a client-first-message and returns the body of the answer to it.
func converse(t *testing.T, addr, user, first string) []byte {
	t.Helper()
	c := dial(t, addr, user)
	defer c.Close()
	c.Write(wire.AppendSASLInitialResponse(nil, wire.ScramSHA256, []byte(first)))
	_, body := message(t, c)
	return body
}

// dial sends a startup packet and reads the offer of mechanisms.
func dial(t *testing.T, addr, user string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	b := []byte{0, 0, 0, 0, 0, 3, 0, 0}
	for _, p := range []string{"user", user, "database", "postgres"} {
		b = append(append(b, p...), 0)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	c.Write(b)
	if typ, body := message(t, c); typ != wire.BackendAuthentication || !strings.Contains(string(body), wire.ScramSHA256) {
		t.Fatalf("got %c %q", typ, body)
	}
	return c
}

func message(t *testing.T, c io.Reader) (typ byte, body []byte) {
	t.Helper()
	var header [wire.HeaderLen]byte
	if _, err := io.ReadFull(c, header[:]); err != nil {
		t.Fatal(err)
	}
	typ, size, _ := wire.Frame(header[:])
	body = make([]byte, size-wire.HeaderLen)
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	return typ, body
}

// What no driver says, is answered as PostgreSQL answers it.
func TestScramViolationsAreAnsweredAsByPostgreSQL(t *testing.T) {
	w := newWorld(t)
	p := w.start(t, "disable")
	initial := func(mechanism, first string) []byte {
		return wire.AppendSASLInitialResponse(nil, mechanism, []byte(first))
	}
	for name, b := range map[string][]byte{
		"a query":                   wire.AppendQuery(nil, "SELECT 1"),
		"too long":                  wire.AppendSASLResponse(nil, make([]byte, 2000)),
		"1 GB":                      {'p', 0x3f, 0xff, 0xff, 0xff},
		"negative":                  {'p', 0xff, 0xff, 0xff, 0xf0},
		"empty":                     wire.AppendSASLResponse(nil, nil),
		"unknown mechanism":         initial("PLAIN", "x"),
		"PLUS without TLS":          initial(wire.ScramSHA256Plus, "p=tls-server-end-point,,n=,r=a"),
		"binding without PLUS":      initial(wire.ScramSHA256, "p=tls-server-end-point,,n=,r=a"),
		"no message":                initial(wire.ScramSHA256, ""),
		"tail":                      wire.AppendSASLResponse(nil, []byte("SCRAM-SHA-256\x00\xff\xff\xff\xffx")),
		"length beyond the message": wire.AppendSASLResponse(nil, []byte("SCRAM-SHA-256\x00\x00\x00\xff\xffx")),
		"authzid":                   initial(wire.ScramSHA256, "n,a=x,n=,r=a"),
		"extension":                 initial(wire.ScramSHA256, "n,,m=x"),
		"y":                         initial(wire.ScramSHA256, "y,,n=,r=a"),
		"final without proof":       append(initial(wire.ScramSHA256, "n,,n=,r=a"), wire.AppendSASLResponse(nil, []byte("c=biws,r=a"))...),
		"final, wrong nonce":        append(initial(wire.ScramSHA256, "n,,n=,r=a"), wire.AppendSASLResponse(nil, []byte("c=biws,r=a,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="))...),
		"final, another header":     append(initial(wire.ScramSHA256, "n,,n=,r=a"), wire.AppendSASLResponse(nil, []byte("c=eSws,r=a"))...),
		"no response at first":      wire.AppendSASLResponse(nil, []byte("SCRAM-SHA-256\x00\xff\xff\xff\xff")),
	} {
		var got [2]string
		for i, addr := range []string{w.Addr(), p.Addr()} {
			c := dial(t, addr, "app")
			c.Write(b)
			for {
				typ, body := message(t, c)
				if typ == wire.BackendErrorResponse {
					fields := wire.ErrorFields(body)
					for _, f := range "SVCMD" {
						v, _ := fields.Get(byte(f))
						got[i] += string(v) + "|"
					}
					break
				}
				if got[i] += string(typ); name == "no response at first" || name == "y" {
					got[i] += salt.FindString(string(body))
					break
				}
			}
			c.Close()
		}
		if got[0] != got[1] {
			t.Errorf("%s:\n  PostgreSQL %s\n  proxy      %s", name, got[0], got[1])
		}
	}
}
