package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// resident is a process' resident memory in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// throw sends bytes on a fresh connection, and reads until the proxy closes it or stays silent for a moment.
func throw(t *testing.T, addr string, raw []byte, halfClose bool) (reply []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { // the proxy may stop reading long before all is written
		conn.Write(raw)
		if halfClose {
			conn.(*net.TCPConn).CloseWrite()
		}
	}()
	conn.SetReadDeadline(time.Now().Add(waitLimit))
	reply, err = io.ReadAll(conn)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Errorf("%.40q: still open after %v", raw, waitLimit)
	}
	return reply
}

// startup with garbage behind it that the session's own protocol error must end.
func messages(db string, raw []byte) []byte {
	return append(conversation.Startup("user", user, "database", db), raw...)
}

// Bad input gets a clear error or an end, never more memory than a session may have, and harms no other session.
func TestBadInputHarmsNobodyElse(t *testing.T) {
	_, db, p := start(t, "--log-level", "error")
	witness := p.Connect(t, db, user, "33")
	must(t, witness, "BEGIN; UPDATE acct SET bal = 1 WHERE id = 1")
	before := resident(t, p.Pid())

	length := func(kind byte, n uint32) []byte { return binary.BigEndian.AppendUint32([]byte{kind}, n) }
	inputs := map[string][]byte{
		"empty":                            {},
		"half a startup length":            {0, 0},
		"startup of length 0":              {0, 0, 0, 0},
		"startup of length 7":              {0, 0, 0, 7, 0, 3, 0},
		"startup of length -1":             {0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0},
		"startup of 1 MB":                  append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, 1<<20)...),
		"startup that promises 2 GB":       append(binary.BigEndian.AppendUint32(nil, 1<<31-1), make([]byte, 100)...),
		"startup without its end":          {0, 0, 0, 12, 0, 3, 0, 0, 'u', 's', 'e', 'r'},
		"startup of protocol 2":            {0, 0, 0, 9, 0, 2, 0, 0, 0},
		"SSLRequest three times":           bytes.Repeat([]byte{0, 0, 0, 8, 4, 210, 22, 47}, 3),
		"HTTP":                             []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS hello":                        append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}, make([]byte, 500)...),
		"message of length 0":              messages(db, length('Q', 0)),
		"message of length 3":              messages(db, length('Q', 3)),
		"message of length -1":             messages(db, length('Q', 0xffffffff)),
		"Query that promises 2 GB":         messages(db, append(length('Q', 1<<31-1), "SELECT 1"...)),
		"Parse that promises 1 GB":         messages(db, append(length('P', 1<<30), "s\x00SELECT"...)),
		"Bind with a negative count":       messages(db, append(length('B', 12), 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)),
		"unknown message type":             messages(db, []byte{'!', 0, 0, 0, 4}),
		"type 0":                           messages(db, []byte{0, 0, 0, 0, 4}),
		"half a message, then the end":     messages(db, []byte{'Q', 0, 0, 0, 20, 'S', 'E'}),
		"Query without its NUL":            messages(db, append(length('Q', 12), "SELECT 1"...)),
		"Parse without its NULs":           messages(db, append(length('P', 12), "SELECT 1"...)),
		"Execute cut short":                messages(db, append(length('E', 5), 0)),
		"password message out of place":    messages(db, append(length('p', 6), 'x', 0)),
		"COPY data out of place":           messages(db, append(length('d', 6), 'x', 0)),
		"cancel of nobody":                 {0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 2},
		"cancel cut short":                 {0, 0, 0, 10, 4, 210, 22, 46, 0, 0},
		"startup, Terminate, more":         messages(db, append([]byte{'X', 0, 0, 0, 4}, "garbage"...)),
		"many parameters":                  conversation.Startup(append(bytesList("x", 3000), "user", user)...),
		"user missing":                     conversation.Startup("database", db),
		"nesting that kills naive parsers": messages(db, query("SELECT "+strings.Repeat("(", 60_000)+"1"+strings.Repeat(")", 60_000))),
		"a sum that kills naive parsers":   messages(db, query("SELECT 1"+strings.Repeat("+1", 24_000))),
		"invalid UTF-8 in a query":         messages(db, query("SELECT '\xff\xfe'; UPDATE acct SET bal = 666")),
		"NUL inside a query":               messages(db, query("SELECT 1\x00; UPDATE acct SET bal = 666")),
	}
	for name, raw := range inputs {
		t.Run(name, func(t *testing.T) { throw(t, p.Addr(), raw, true) })
	}
	t.Run("random bytes", func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 7))
		for range 200 {
			raw := make([]byte, r.IntN(200))
			for i := range raw {
				raw[i] = byte(r.Uint32())
			}
			if len(raw) > 8 && r.IntN(2) == 0 {
				raw = messages(db, raw)
			}
			throw(t, p.Addr(), raw, true)
		}
	})
	t.Run("memory", func(t *testing.T) {
		if grown := resident(t, p.Pid()) - before; grown > 200<<20 {
			t.Errorf("%d MB more than before", grown>>20)
		}
	})
	if n := p.Metric(t, "fenceproxy_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
	must(t, witness, "COMMIT")
	want(t, witness, "UPDATE acct SET bal = 2 WHERE id = 1", "")
	eventually(t, "sessions end with their clients", func() bool { return p.Metric(t, "fenceproxy_sessions") == 1 })
}

func query(sql string) []byte {
	raw := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(sql)+5))
	return append(append(raw, sql...), 0)
}

func bytesList(s string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(s, i), "v")
	}
	return list
}

// A client that sends nothing is let go after the login timeout and takes nobody's place for ever.
func TestSilentClientIsLetGo(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	file := t.TempDir() + "/fenceproxy.yaml"
	if err := os.WriteFile(file, []byte("limits:\n  login_timeout: 1s\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--config", file)
	throw(t, p.Addr(), nil, false)
	throw(t, p.Addr(), []byte{0, 0, 0}, false)
	throw(t, p.Addr(), []byte{0, 0, 0, 8, 4, 210, 22, 47}, false)
}

// A statement of 100 MB is refused with an error, in bounded memory, and the session lives on or ends cleanly.
func TestHugeStatementIsRefusedInBoundedMemory(t *testing.T) {
	_, db, p := start(t)
	before := resident(t, p.Pid())
	conn := p.Connect(t, db, user, "33")
	sqlstate := run(conn, "UPDATE acct SET bal = length('"+strings.Repeat("x", 100<<20)+"')")
	if sqlstate != "54000" {
		t.Errorf("SQLSTATE %q, want 54000", sqlstate)
	}
	if grown := resident(t, p.Pid()) - before; grown > 200<<20 {
		t.Errorf("%d MB more than before", grown>>20)
	}
	want(t, p.Connect(t, db, user, "33"), "UPDATE acct SET bal = 1", "")
}

// A client that never reads stops its server and costs the proxy no memory; others go on.
func TestClientThatNeverReads(t *testing.T) {
	c, db, p := start(t)
	before := resident(t, p.Pid())
	deaf, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	deaf.Write(messages(db, query("SELECT repeat('x', 1000) FROM generate_series(1, 1000000)"))) // 1 GB
	direct := c.Connect(t, db, "postgres")
	eventually(t, "the server stands still at its socket", func() bool {
		return number(t, direct, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'ClientWrite'") == 1
	})
	if grown := resident(t, p.Pid()) - before; grown > 50<<20 {
		t.Errorf("%d MB more than before", grown>>20)
	}
	want(t, p.Connect(t, db, user, "33"), "UPDATE acct SET bal = 1", "")
}

// A client that writes much before it reads anything must not lock up: both directions move on their own.
func TestClientThatWritesBeforeItReads(t *testing.T) {
	_, db, p := start(t)
	client, err := conversation.Dial(p.Addr(), "user", user, "database", db, "fence.token", "33")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.UntilReady(); err != nil {
		t.Fatal(err)
	}
	const batches = 500
	one, err := conversation.Encode(nil, "Run SELECT repeat('"+strings.Repeat("y", 4000)+"', 4)")
	if err != nil {
		t.Fatal(err)
	}
	sync, _ := conversation.Encode(nil, "Sync")
	written := make(chan error, 1)
	go func() { // 2 MB out, 8 MB back
		for range batches {
			if err := client.Write(one); err != nil {
				written <- err
				return
			}
		}
		written <- client.Write(sync)
	}()
	raw, err := client.UntilReady()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if len(raw) != 4*batches+1 {
		t.Errorf("%d messages came back, want %d", len(raw), 4*batches+1)
	}
}

// PostgreSQL down: a clear error at connect, sessions end, and it works again when the server does.
func TestServerDownAndUpAgain(t *testing.T) {
	c := pgtest.Start(t)
	db := fenced(t, c)
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct")
	conn := p.Connect(t, db, user, "33")
	c.Stop()
	if sqlstate := run(conn, "UPDATE acct SET bal = 1"); sqlstate == "" {
		t.Error("a write without a server succeeded")
	}
	_, err := p.TryConnect(db, user, "33")
	if sqlstate := code(err); !strings.HasPrefix(sqlstate, "08") && !strings.HasPrefix(sqlstate, "57") {
		t.Errorf("connect without a server: %v; want an error of class 08 or 57", err)
	}
	eventually(t, "/readyz notices", func() bool { status, _, err := p.Get("/readyz"); return err == nil && status != 200 })
	if status, _, err := p.Get("/livez"); err != nil || status != 200 {
		t.Errorf("/livez says %d, %v", status, err)
	}
	c.Restart(t)
	eventually(t, "ready again", func() bool { status, _, _ := p.Get("/readyz"); return status == 200 })
	want(t, p.Connect(t, db, user, "34"), "UPDATE acct SET bal = 34", "")
}

// SIGTERM lets a session finish its transaction and its client hear of the end.
func TestDrainLetsTransactionsFinish(t *testing.T) {
	c, db, p := start(t)
	busy, idle := p.Connect(t, db, user, "33"), p.Connect(t, db, user, "33")
	must(t, busy, "BEGIN; UPDATE acct SET bal = 33 WHERE id = 1")
	stopped := make(chan struct{})
	go func() {
		p.Stop(t)
		close(stopped)
	}()
	eventually(t, "no new sessions", func() bool {
		conn, err := p.TryConnect(db, user, "")
		if err == nil {
			conn.Close(context.Background())
		}
		return err != nil
	})
	if sqlstate := run(busy, "UPDATE acct SET bal = 34 WHERE id = 1; COMMIT"); sqlstate != "" {
		t.Errorf("a transaction under way was cut off: %s", sqlstate)
	}
	if sqlstate := run(idle, "SELECT 1"); sqlstate == "" {
		t.Error("an idle session was kept")
	}
	<-stopped
	if bal := number(t, c.Connect(t, db, "postgres"), "SELECT bal FROM acct WHERE id = 1"); bal != 34 {
		t.Errorf("bal = %d", bal)
	}
}

// The session after the limit gets 53300, and a place that becomes free is used again.
func TestConnectionLimit(t *testing.T) {
	_, db, p := start(t, "--max-connections", "2")
	one := p.Connect(t, db, user, "")
	p.Connect(t, db, user, "")
	if _, err := p.TryConnect(db, user, ""); code(err) != "53300" {
		t.Errorf("third of two: %v, want 53300", err)
	}
	one.Close(context.Background())
	eventually(t, "the freed place is given away", func() bool {
		conn, err := p.TryConnect(db, user, "")
		if err == nil {
			conn.Close(context.Background())
		}
		return err == nil
	})
}

// A cancel request reaches the right statement through the proxy.
func TestCancelRequest(t *testing.T) {
	_, db, p := start(t)
	conn := p.Connect(t, db, user, "33")
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := conn.PgConn().Exec(context.Background(), "SELECT pg_sleep(60)").ReadAll()
		failed <- err
	}()
	defer cancel()
	eventually(t, "the statement is cancelled", func() bool {
		if err := conn.PgConn().CancelRequest(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-failed:
			if code(err) != "57014" {
				t.Errorf("%v, want 57014", err)
			}
			return true
		case <-time.After(20 * time.Millisecond):
			return false
		}
	})
	want(t, conn, "UPDATE acct SET bal = 1", "")
}
