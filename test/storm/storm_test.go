package storm

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

var (
	size = flag.Int("storm", 1000, "connections to make and kill")
	seed = flag.Uint64("seed", 1, "of the storm's random choices")
)

const places = 48 // the proxy's connection limit, and more than come at a time

// Connections that are killed at any moment, by either side, leave nothing behind, and every place can be taken again.
func TestStorm(t *testing.T) {
	c, db := database(t)
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "acct=acct", "--max-connections", fmt.Sprint(places), "--log-level", "error")
	token := &atomic.Int64{}
	token.Store(10)
	w := &weather{addr: p.Addr(), db: db, token: token}
	warmUp(t, w)
	var before footprint
	eventually(t, "nobody there", func() (bool, any) {
		before = look(t, c, p)
		return before.sessions == 0 && before.backends == 0, before
	})
	memory := resident(t, p.Pid())

	// The server's side: a backend is ended every now and then.
	ctx, stop := context.WithCancel(t.Context())
	killer := make(chan int)
	direct := c.Connect(t, "postgres", "postgres")
	go func() {
		killed := 0
		for ctx.Err() == nil {
			var n int
			err := direct.QueryRow(context.Background(), `SELECT count(pg_terminate_backend(pid)) FROM
				(SELECT pid FROM pg_stat_activity WHERE usename = 'teller' ORDER BY random() LIMIT 1) x`).Scan(&n)
			if err != nil {
				t.Error(err)
				break
			}
			killed += n
			time.Sleep(10 * time.Millisecond) // a pace, not a wait
		}
		killer <- killed
	}()

	began := time.Now()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 24 {
		workers.Go(func() {
			for n := next.Add(1); n <= int64(*size); n = next.Add(1) {
				w.strike(rand.New(rand.NewPCG(*seed, uint64(n))))
			}
		})
	}
	workers.Wait()
	stop()
	t.Logf("%d connections in %v, seed %d; %d backends ended; got as far as %v", *size, time.Since(began).Round(time.Millisecond), *seed, <-killer, &w.reached)
	nothingLeft(t, c, p, before)
	if grown := resident(t, p.Pid()) - memory; grown > 64<<20 {
		t.Errorf("%d MB more than before", grown>>20)
	}
	everyPlace(t, w, p)
	nothingLeft(t, c, p, before)
}

// warmUp has the proxy open what it keeps: control connections, idle connections of the admin page.
func warmUp(t *testing.T, w *weather) {
	t.Helper()
	conn, err := conversation.Dial(w.addr, "user", "teller", "database", w.db, "fence.token", fmt.Sprint(w.token.Load()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if raw, err := conn.UntilReady(); err != nil || len(raw) == 0 || raw[len(raw)-1][0] != 'Z' {
		t.Fatalf("%q, %v", raw, err)
	}
}

// everyPlace takes all of the proxy's places at once and writes in each.
func everyPlace(t *testing.T, w *weather, p *proxytest.Proxy) {
	t.Helper()
	token := fmt.Sprint(w.token.Load() + 1)
	for i := range places {
		conn, err := p.TryConnect(w.db, "teller", token)
		if err != nil {
			t.Fatalf("place %d of %d: %v", i+1, places, err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), "UPDATE acct SET bal = 1 WHERE id = $1", pgx.QueryExecModeExec, i+1); err != nil {
			t.Errorf("place %d: %v", i+1, err)
		}
	}
}

// weather is what strikes know.
type weather struct {
	addr, db string
	token    *atomic.Int64
	reached  stages
}

// strike makes one connection, gets to a random stage, and kills it in a random way.
func (w *weather) strike(r *rand.Rand) {
	tcp, err := net.Dial("tcp", w.addr)
	if err != nil {
		return
	}
	conn := tcp.(*net.TCPConn)
	conn.SetDeadline(time.Now().Add(waitLimit))
	w.reached.add(w.approach(conn, r))
	if r.IntN(3) == 0 {
		time.Sleep(time.Duration(r.IntN(4000)) * time.Microsecond) // somewhere into the server's work
	}
	switch r.IntN(4) {
	case 0:
		conn.SetLinger(0) // a reset
	case 1:
		conn.CloseWrite() // and reads on to the end
		io.Copy(io.Discard, conn)
	case 2:
		conn.Write([]byte{'X', 0, 0, 0, 4})
	}
	conn.Close()
}

// approach goes as far as chance has it and says where it stopped.
func (w *weather) approach(conn *net.TCPConn, r *rand.Rand) stage {
	user, token := "teller", ""
	switch r.IntN(6) {
	case 0:
		user = "locked"
	case 1:
		token = fmt.Sprint(w.token.Add(1)) // a takeover
	case 2, 3:
		token = fmt.Sprint(w.token.Load())
	}
	startup := conversation.Startup("user", user, "database", w.db, "fence.token", token)
	if token == "" {
		startup = conversation.Startup("user", user, "database", w.db)
	}
	switch r.IntN(12) {
	case 0:
		return connected
	case 1:
		conn.Write(startup[:r.IntN(len(startup))])
		return startingUp
	case 2:
		conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}) // SSLRequest
		if r.IntN(2) == 0 {
			io.ReadFull(conn, make([]byte, 1))
			conn.Write(startup[:r.IntN(len(startup))])
		}
		return startingUp
	case 3:
		conn.Write([]byte{0, 0, 0, 16, 4, 210, 22, 46, 0, 0, byte(r.IntN(256)), byte(r.IntN(256)), 1, 2, 3, 4}) // a cancel request
		return startingUp
	case 4:
		conn.Write(startup)
		return loggingIn
	case 5: // some of the replies
		conn.Write(startup)
		conn.Read(make([]byte, 1+r.IntN(400)))
		return loggingIn
	}
	conn.Write(startup)
	reply, last := untilReady(conn)
	if user == "locked" {
		conn.Write(message('p', append([]byte("SCRAM-SHA-256\x00\x00\x00\x00\x20"), "n,,n=,r=abcdefghijklmnopqrstuvwx"...))[:5+r.IntN(40)])
		return authenticating
	}
	if last != 'Z' {
		return loggingIn // refused: stale by now, or ended from the other side
	}
	query := func(sql string) { conn.Write(message('Q', append([]byte(sql), 0))) }
	switch r.IntN(9) {
	case 0:
		return idle
	case 1:
		query(fmt.Sprintf("UPDATE acct SET bal = bal + 1 WHERE id = %d", 1+r.IntN(1000)))
		return querying
	case 2:
		query("SELECT pg_sleep(0.01), 'x' FROM generate_series(1, 3)")
		return querying
	case 3:
		query("BEGIN; UPDATE acct SET bal = bal + 1 WHERE id = 1") // all wait for one row
		if r.IntN(2) == 0 {
			untilReady(conn)
		}
		return inTransaction
	case 4:
		query("BEGIN")
		untilReady(conn)
		query("INSERT INTO plain VALUES (1, 'x')")
		return inTransaction
	case 5:
		table := []string{"acct (id, bal)", "plain (id)"}[r.IntN(2)]
		query("BEGIN; COPY " + table + " FROM STDIN")
		if b := make([]byte, 5); r.IntN(2) == 0 {
			io.ReadFull(conn, b)
		}
		for range r.IntN(20) {
			conn.Write(message('d', []byte("1\n"))[:1+r.IntN(7)])
		}
		return copying
	case 6:
		query("COPY (SELECT repeat('x', 1000) FROM generate_series(1, 20000)) TO STDOUT") // 20 MB
		io.ReadFull(conn, make([]byte, r.IntN(100_000)))
		return copying
	case 7: // a pipeline without its end
		raw := message('P', []byte("\x00UPDATE acct SET bal = 0 WHERE id = 5\x00\x00\x00"))
		raw = append(raw, message('B', []byte("\x00\x00\x00\x00\x00\x00\x00\x00"))...)
		raw = append(raw, message('E', []byte("\x00\x00\x00\x00\x00"))...)
		raw = append(raw, message('S', nil)...)
		for range r.IntN(5) {
			raw = append(raw, raw...)
		}
		conn.Write(raw[:1+r.IntN(len(raw))])
		return pipelining
	default: // cancelled by another connection, which is killed as well
		query("SELECT pg_sleep(0.5)")
		if key := keyOf(reply); key != nil {
			if other, err := net.Dial("tcp", w.addr); err == nil {
				other.Write(append([]byte{0, 0, 0, 16, 4, 210, 22, 46}, key...))
				if r.IntN(2) == 0 {
					untilReady(conn)
				}
				other.Close()
			}
		}
		return querying
	}
}

func message(kind byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

// untilReady reads to a ReadyForQuery or whatever is behind the last message, and says what came last.
func untilReady(conn net.Conn) (raw []byte, last byte) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return raw, 0
		}
		body := make([]byte, max(4, binary.BigEndian.Uint32(head[1:]))-4)
		if _, err := io.ReadFull(conn, body); err != nil {
			return raw, 0
		}
		raw = append(append(raw, head[:]...), body...)
		if head[0] == 'Z' || head[0] == 'R' && len(body) > 4 { // ready, or a password is wanted
			return raw, head[0]
		}
	}
}

// keyOf finds BackendKeyData among whole messages.
func keyOf(raw []byte) []byte {
	for len(raw) >= 5 {
		n := int(binary.BigEndian.Uint32(raw[1:])) + 1
		if raw[0] == 'K' {
			return raw[5:n]
		}
		raw = raw[n:]
	}
	return nil
}
