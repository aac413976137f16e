package protocol

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
	"github.com/fenceproxy/fenceproxy/wire"
)

// A cancel request works through any of the proxies in front of a server: the key is the server's own. From PostgreSQL 18
// and protocol 3.2 on it is long.
func TestCancelThroughAnotherProxy(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		c := pgtest.Start(t, pgtest.WithInstallation(i))
		db := database(t, c)
		one := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
		other := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
		direct := c.Connect(t, db, "postgres")
		for _, version := range []string{"3.0", "3.2"} {
			conn, err := pgx.Connect(context.Background(), one.DSN(db, user, "max_protocol_version", version, "fence.token", nextToken()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			key := conn.PgConn().SecretKey()
			if long := len(key) > 4; long != (i.Major >= 18 && version == "3.2") {
				t.Errorf("protocol %s: a key of %d bytes", version, len(key))
			}
			failed := make(chan error, 1)
			go func() {
				_, err := conn.Exec(context.Background(), "SELECT pg_sleep(60)")
				failed <- err
			}()
			eventually(t, "it sleeps", func() bool {
				return number(t, direct, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1
			})
			cancel(t, other.Addr(), conn.PgConn().PID(), key)
			if err := <-failed; code(err) != "57014" {
				t.Errorf("protocol %s: %v", version, err)
			}
			if _, err := conn.Exec(context.Background(), "UPDATE acct SET bal = bal + 1"); err != nil {
				t.Errorf("protocol %s, afterwards: %v", version, err)
			}
			conn.Close(context.Background())
		}
		if n := other.Metric(t, "fenceproxy_cancels_total", `relayed="true"`); n != 2 {
			t.Errorf("%v cancels", n)
		}
	})
}

func cancel(t *testing.T, addr string, pid uint32, key []byte) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	packet := binary.BigEndian.AppendUint32(nil, uint32(12+len(key)))
	packet = binary.BigEndian.AppendUint32(packet, 1234<<16|5678)
	packet = binary.BigEndian.AppendUint32(packet, pid)
	if _, err := c.Write(append(packet, key...)); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil { // closed when the server has acted
		t.Fatalf("got %q, %v", b, err)
	}
}

// min_protocol_version of a client is the server's affair: 18 fulfils 3.2, older ones do not.
func TestProtocolVersionThatTheClientInsistsOn(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		c := pgtest.Start(t, pgtest.WithInstallation(i))
		db := database(t, c)
		p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
		for _, token := range []string{"", nextToken()} {
			params := []string{"min_protocol_version", "3.2", "max_protocol_version", "3.2"}
			if token != "" {
				params = append(params, "fence.token", token)
			}
			conn, err := pgx.Connect(context.Background(), p.DSN(db, user, params...))
			if knows := i.Major >= 18; knows != (err == nil) {
				t.Errorf("token %q: %v", token, err)
			}
			if err == nil {
				if _, err := conn.Exec(context.Background(), "UPDATE acct SET bal = 1"); code(err) != map[bool]string{true: "ZF002", false: ""}[token == ""] {
					t.Errorf("token %q: %v", token, err)
				}
				conn.Close(context.Background())
			}
		}
	})
}

// teleport#68711, pgdog#918: a server that sends no BackendKeyData (RDS Proxy). Sessions work, fences too.
func TestServerWithoutKeyData(t *testing.T) {
	c := pgtest.Shared(t)
	db := database(t, c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go withoutKey(client, c.Addr())
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := proxytest.Start(t, "host=127.0.0.1 sslmode=disable user=postgres dbname="+db+" port="+port, "--control", c.DSN(db, "postgres"), "--fence", "acct=acct")
	conn := p.Connect(t, db, user, nextToken())
	if pid := conn.PgConn().PID(); pid != 0 {
		t.Fatalf("process id %d came through: this test proves nothing", pid)
	}
	ctx := context.Background()
	if _, err := conn.Exec(ctx, "UPDATE acct SET bal = 7"); err != nil {
		t.Fatal(err)
	}
	p.Connect(t, db, user, nextToken())
	if _, err := conn.Exec(ctx, "UPDATE acct SET bal = 8"); code(err) != "ZF001" {
		t.Errorf("stale: %v", err)
	}
}

// withoutKey relays a connection and leaves BackendKeyData out.
func withoutKey(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	for {
		var header [wire.HeaderLen]byte
		if _, err := io.ReadFull(server, header[:]); err != nil {
			return
		}
		typ, size, _ := wire.Frame(header[:])
		message := append(header[:], make([]byte, size-wire.HeaderLen)...)
		if _, err := io.ReadFull(server, message[wire.HeaderLen:]); err != nil {
			return
		}
		if typ == wire.BackendKeyData {
			continue
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}
