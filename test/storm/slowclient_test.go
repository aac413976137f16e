package storm

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// Clients that send their startup packet a byte at a time, and never the last one, are let go after the login timeout: they
// cannot hold all places. Those that dribble *statements* may: they are logged in.
func TestSlowClientsAreLetGo(t *testing.T) {
	c, db := database(t)
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--login-timeout", "1s", "--max-connections", "20", "--log-level", "error")
	startup := conversation.Startup("user", "teller", "database", db, "application_name", "dribble")
	began := time.Now()
	var clients sync.WaitGroup
	for range 20 {
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		clients.Go(func() { // far too slow: a byte per 100 ms
			for _, b := range startup {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				if _, err := conn.Read(make([]byte, 1)); err != nil {
					if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
						return
					}
				}
			}
			t.Error("a startup packet was waited for until its end")
		})
	}
	clients.Wait()
	if took := time.Since(began); took > waitLimit {
		t.Errorf("they were kept for %v", took)
	}
	eventually(t, "a place is free", func() (bool, any) {
		conn, err := p.TryConnect(db, "teller", "10")
		if err == nil {
			conn.Close(t.Context())
		}
		return err == nil, err
	})

	// A statement in single bytes is a statement.
	conn, err := conversation.Dial(p.Addr(), "user", "teller", "database", db, "fence.token", "10")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.UntilReady(); err != nil {
		t.Fatal(err)
	}
	conn.Cut = proxytest.SingleBytes
	if err := conn.Write(message('Q', []byte("UPDATE acct SET bal = 1 WHERE id = 1\x00"))); err != nil {
		t.Fatal(err)
	}
	raw, err := conn.UntilReady()
	if err != nil || len(raw) != 2 || raw[0][0] != 'C' {
		t.Errorf("%q, %v", raw, err)
	}
}
