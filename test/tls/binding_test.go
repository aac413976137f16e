package tls

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
	"github.com/fenceproxy/fenceproxy/wire"
)

// Who can log in with SCRAM through a proxy that knows no passwords: each way of two legs, each kind of client.
func TestPasswordExchangeByLegs(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		w := newWorld(t, pgtest.WithInstallation(i))
		secure := upstream(w.Cluster, "sslmode=verify-full", "sslrootcert="+w.File)
		plain := upstream(w.Cluster, "sslmode=disable")
		own := w.Server(t, "proxy", "localhost")
		for _, tc := range []struct {
			name    string
			proxy   *proxytest.Proxy
			client  string
			binding map[string]bool // channel_binding of libpq, and whether it gets in
			says    string          // when not
		}{
			{"plain, plain", relay(t, plain), "sslmode=disable", map[string]bool{"prefer": true, "disable": true, "require": false}, "channel binding required"},
			{"TLS, plain", relay(t, plain, tlsFlags(own)...), "sslmode=verify-full", map[string]bool{"prefer": true, "disable": true, "require": false}, "channel binding is required, but server did not offer"},
			{"plain, TLS", relay(t, secure), "sslmode=disable", map[string]bool{"prefer": true, "disable": true, "require": false}, "channel binding required"},
			{"TLS, TLS, one certificate", relay(t, secure, tlsFlags(w.pair, "--tls-channel-binding", "same-certificate")...), "sslmode=verify-full",
				map[string]bool{"prefer": true, "disable": true, "require": true}, ""},
			{"TLS, TLS, two certificates by mistake", relay(t, secure, tlsFlags(own, "--tls-channel-binding", "same-certificate")...), "sslmode=verify-full",
				map[string]bool{"prefer": false, "disable": false}, "fenceproxy and PostgreSQL present different certificates"},
			// Why the configuration must say that nobody binds:
			{"TLS, TLS, two certificates", relay(t, secure, tlsFlags(own, "--tls-channel-binding", "disabled")...), "sslmode=verify-full",
				map[string]bool{"prefer": false, "disable": true, "require": false}, "SCRAM channel binding check failed"},
		} {
			for binding, want := range tc.binding {
				for _, user := range []string{"scram", "md5"} {
					if user == "md5" && (binding != "disable" || strings.Contains(tc.name, "mistake")) {
						continue
					}
					got, ok := psql(t, conninfo(tc.proxy.Addr(), "user="+user, tc.client, "sslrootcert="+w.File, "channel_binding="+binding), "SELECT current_user")
					if ok != want || ok && got != user || !ok && !strings.Contains(got, tc.says) {
						t.Errorf("%s, channel_binding=%s, %s: %s", tc.name, binding, user, got)
					}
				}
			}
			wrong, ok := psql(t, conninfo(tc.proxy.Addr(), "user=scram", "password=wrong", tc.client, "sslrootcert="+w.File, "channel_binding=disable"), "SELECT 1")
			if ok {
				t.Errorf("%s: a wrong password: %s", tc.name, wrong)
			}
		}
	})
}

// The mechanism with channel binding is taken off the offer however the server's bytes are cut.
func TestOfferIsCutAnywhere(t *testing.T) {
	w := newWorld(t)
	cutter := proxytest.NewCutter(t, w.Addr(), proxytest.SingleBytes)
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(strings.Split(cutter.DSN(t, "postgres://x/"), "/")[2], "//"))
	p := relay(t, "host="+host+" port="+port+" dbname=postgres user=postgres sslmode=require")
	if got, ok := psql(t, conninfo(p.Addr(), "user=scram", "sslmode=disable"), encrypted); !ok || got != "TLS" {
		t.Error(got)
	}
}

// pgx binds as well.
func TestChannelBindingOfADriver(t *testing.T) {
	w := newWorld(t)
	p := relay(t, upstream(w.Cluster, "sslmode=verify-full", "sslrootcert="+w.File), tlsFlags(w.pair, "--tls-channel-binding", "same-certificate")...)
	_, port, _ := net.SplitHostPort(p.Addr())
	conn, err := pgx.Connect(context.Background(), "host=localhost port="+port+" dbname=postgres user=scram password='"+password+
		"' sslmode=verify-full channel_binding=require sslrootcert="+w.File)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close(context.Background())
}

// A client that can bind and says that it was not offered to ('y') is a client whose offer somebody has shortened.
// PostgreSQL refuses it where it did offer. libpq never says so in plain text, where the proxy shortens the offer; the
// client's word is inside of what it proves, so that the proxy could not change it.
func TestDowngradeIsNoticed(t *testing.T) {
	w := newWorld(t)
	for mode, want := range map[string]string{"require": "28000", "disable": ""} {
		p := relay(t, upstream(w.Cluster, "sslmode="+mode))
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write(startup("user", "scram", "database", "postgres"))
		offer := message(t, c, wire.BackendAuthentication)
		if bytes.Contains(offer, []byte("PLUS")) {
			t.Fatalf("offered %q", offer)
		}
		first := "y,,n=,r=nonce0123456789"
		body := append([]byte("SCRAM-SHA-256\x00"), binary.BigEndian.AppendUint32(nil, uint32(len(first)))...)
		body = append(body, first...)
		c.Write(append(binary.BigEndian.AppendUint32([]byte{wire.FrontendPassword}, uint32(len(body)+4)), body...))
		if want == "" {
			message(t, c, wire.BackendAuthentication)
			continue
		}
		fields := wire.ErrorFields(message(t, c, wire.BackendErrorResponse))
		if got, _ := fields.Get(wire.FieldCode); string(got) != want {
			t.Errorf("sslmode=%s: %q", mode, fields)
		}
	}
}

func startup(params ...string) []byte {
	b := []byte{0, 0, 0, 0, 0, 3, 0, 0}
	for _, p := range params {
		b = append(append(b, p...), 0)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

// message reads one message of a type and returns its body.
func message(t *testing.T, c io.Reader, typ byte) []byte {
	t.Helper()
	var header [wire.HeaderLen]byte
	if _, err := io.ReadFull(c, header[:]); err != nil {
		t.Fatal(err)
	}
	got, size, _ := wire.Frame(header[:])
	body := make([]byte, size-wire.HeaderLen)
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	if got != typ {
		t.Fatalf("got %c %q, want %c", got, body, typ)
	}
	return body
}
