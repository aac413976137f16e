package storm

import (
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// A real server whose replies are damaged on their way: one byte changed, some lost, some added, some twice.
func TestDamagedReplies(t *testing.T) {
	c, db := database(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for n := uint64(0); ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go damage(conn.(*net.TCPConn), c.Addr(), rand.New(rand.NewPCG(*seed, n)))
		}
	}()
	upstream := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: l.Addr().String(), Path: "/" + db, RawQuery: "sslmode=disable"}
	p := proxytest.Start(t, upstream.String(), "--control", c.DSN(db, "postgres"), "--fence", "acct=acct", "--login-timeout", "2s", "--log-level", "error")
	eventually(t, "a login comes through, for what the proxy opens once", func() (bool, any) {
		conn, err := p.TryConnect(db, "teller", "10")
		if err == nil {
			conn.Close(t.Context())
		}
		return err == nil, err
	})
	var before footprint
	eventually(t, "nobody there", func() (bool, any) {
		before = look(t, c, p)
		return before.sessions == 0 && before.backends == 0, before
	})
	memory := resident(t, p.Pid())

	script, err := conversation.Encode(nil, "Query UPDATE acct SET bal = bal WHERE id = 1")
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"Run SELECT * FROM acct LIMIT 3", "Run UPDATE acct SET bal = bal WHERE id = 2", "Sync",
		"Query BEGIN; SELECT 1; COMMIT", "Query SELECT nonsense", "Run UPDATE acct SET bal = bal WHERE id = 3", "Sync", "Terminate"} {
		more, err := conversation.Encode(nil, words)
		if err != nil {
			t.Fatal(words, err)
		}
		script = append(script, more...)
	}
	const visits = 400
	var next, whole atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for next.Add(1) <= visits {
				conn, err := net.Dial("tcp", p.Addr())
				if err != nil {
					t.Error(err)
					return
				}
				conn.Write(append(conversation.Startup("user", "teller", "database", db, "fence.token", "10"), script...))
				// The damage may leave both sides waiting for the other, as it would without the proxy: then the client goes.
				conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
				if _, err := io.Copy(io.Discard, conn); err == nil {
					whole.Add(1)
				}
				conn.Close()
			}
		})
	}
	clients.Wait()
	t.Logf("%d of %d sessions came to an end by themselves", whole.Load(), visits)
	nothingLeft(t, c, p, before)
	if grown := resident(t, p.Pid()) - memory; grown > 64<<20 {
		t.Errorf("%d MB more than before", grown>>20)
	}
}

// damage relays a connection and does one thing to the replies, somewhere in their first 1,500 bytes.
func damage(client *net.TCPConn, addr string, r *rand.Rand) {
	defer client.Close()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	go func() {
		io.Copy(server, client)
		server.CloseWrite()
	}()
	if _, err := io.CopyN(client, server, int64(r.IntN(1500))); err != nil {
		return
	}
	some := make([]byte, 1+r.IntN(6))
	if _, err := io.ReadFull(server, some); err != nil {
		return
	}
	switch r.IntN(4) {
	case 0: // lost
	case 1:
		client.Write(append(some, some...))
	case 2:
		client.Write(append(noise(r, 1+r.IntN(8)), some...))
	default:
		some[0] ^= 1 << r.IntN(8)
		client.Write(some)
	}
	io.Copy(client, server)
}
