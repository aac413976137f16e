package protocol

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
	"github.com/fenceproxy/fenceproxy/wire"
)

// megabytes is the size of single messages. With 1000 PostgreSQL takes gigabytes for some of them.
var megabytes = flag.Int("megabytes", 100, "size of the largest messages")

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the largest resident size that a process ever had, in bytes.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("no /proc")
	}
	m := peakLine.FindSubmatch(status)
	if m == nil {
		t.Skip("no peak in /proc")
	}
	kb, _ := strconv.Atoi(string(m[1]))
	return kb << 10
}

// Messages of any size pass in little memory where the proxy need not read them whole.
func TestLargeMessagesAreStreamed(t *testing.T) {
	c, db, p := start(t)
	size := *megabytes << 20
	conn := p.Connect(t, db, user, nextToken())
	ctx := context.Background()
	if _, err := conn.Exec(ctx, "UPDATE acct SET bal = 1"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		run  func() error
	}{
		{"DataRow", func() error {
			r := conn.PgConn().ExecParams(ctx, fmt.Sprintf("SELECT repeat('x', %d)", size), nil, nil, nil, nil).Read()
			if r.Err == nil && len(r.Rows[0][0]) != size {
				return fmt.Errorf("%d bytes", len(r.Rows[0][0]))
			}
			return r.Err
		}},
		{"Bind", func() error {
			r := conn.PgConn().ExecParams(ctx, "SELECT length($1::bytea)", [][]byte{bytes.Repeat([]byte("x"), size)}, nil, []int16{1}, nil).Read()
			if r.Err == nil && string(r.Rows[0][0]) != strconv.Itoa(size) {
				return fmt.Errorf("length %s", r.Rows[0][0])
			}
			return r.Err
		}},
		{"Bind of a fenced write", func() error {
			return conn.PgConn().ExecParams(ctx, "UPDATE acct SET bal = length($1::bytea)", [][]byte{bytes.Repeat([]byte("x"), size)}, nil, []int16{1}, nil).Read().Err
		}},
		{"CopyData", func() error { // one row, one message
			return copyIn(p, db, "COPY acct (id, bal, name) FROM STDIN", []byte("1000\t1\t"), size)
		}},
		{"CopyData out", func() error {
			n := counter(0)
			if _, err := conn.PgConn().CopyTo(ctx, &n, "COPY acct TO STDOUT"); err != nil {
				return err
			}
			if int(n) < size {
				return fmt.Errorf("%d bytes", n)
			}
			return nil
		}},
	} {
		before := peak(t, p.Pid())
		if err := tc.run(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if grown := peak(t, p.Pid()) - before; grown > 24<<20 {
			t.Errorf("%s of %d MB: the proxy took %d MB", tc.name, *megabytes, grown>>20)
		}
	}
	c.Exec(t, db, "DELETE FROM acct WHERE id = 1000")
}

type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// copyIn sends a row in one message of size bytes, made of head and x.
func copyIn(p *proxytest.Proxy, db, sql string, head []byte, size int) error {
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return err
	}
	defer client.Close()
	client.SetDeadline(time.Now().Add(5 * time.Minute))
	client.Write(conversation.Startup("user", user, "database", db, "fence.token", nextToken()))
	if err := until(client, wire.BackendReadyForQuery); err != nil {
		return err
	}
	client.Write(wire.AppendQuery(nil, sql))
	if err := until(client, wire.BackendCopyInResponse); err != nil {
		return err
	}
	header := binary.BigEndian.AppendUint32([]byte{wire.FrontendCopyData}, uint32(4+len(head)+size+1))
	client.Write(append(header, head...))
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for left := size; left > 0; left -= len(chunk) {
		if _, err := client.Write(chunk[:min(left, len(chunk))]); err != nil {
			return err
		}
	}
	client.Write([]byte{'\n', wire.FrontendCopyDone, 0, 0, 0, 4})
	return until(client, wire.BackendReadyForQuery)
}

// until reads messages up to one of a type; an error is one.
func until(c io.Reader, typ byte) error {
	for {
		var header [wire.HeaderLen]byte
		if _, err := io.ReadFull(c, header[:]); err != nil {
			return err
		}
		got, size, _ := wire.Frame(header[:])
		body := make([]byte, size-wire.HeaderLen)
		if _, err := io.ReadFull(c, body); err != nil {
			return err
		}
		switch got {
		case typ:
			return nil
		case wire.BackendErrorResponse:
			return fmt.Errorf("%q", body)
		}
	}
}

// A statement over the limit is refused in its place, by both protocols, and the session goes on.
func TestStatementOverTheLimit(t *testing.T) {
	_, db, p := start(t)
	conn := p.Connect(t, db, user, nextToken())
	ctx := context.Background()
	long := "SELECT 1 /* " + strings.Repeat("x", 65<<20) + " */"
	if _, err := conn.PgConn().Exec(ctx, long).ReadAll(); code(err) != "54000" {
		t.Errorf("Query: %v", err)
	}
	if r := conn.PgConn().ExecParams(ctx, long, nil, nil, nil, nil).Read(); code(r.Err) != "54000" {
		t.Errorf("Parse: %v", r.Err)
	}
	if _, err := conn.PgConn().Prepare(ctx, "long", long, nil); code(err) != "54000" {
		t.Errorf("named Parse: %v", err)
	}
	if _, err := conn.Exec(ctx, "UPDATE acct SET bal = 1"); err != nil {
		t.Error(err)
	}
}

// 10,000 parameters, and as many as the protocol has, of a fenced write.
func TestBindOfManyParameters(t *testing.T) {
	c, db, p := start(t)
	conn := p.Connect(t, db, user, nextToken())
	ctx := context.Background()
	insert := func(n int) error {
		var sql strings.Builder
		sql.WriteString("INSERT INTO acct (id, bal) VALUES ")
		values := make([][]byte, n)
		for i := range n {
			values[i] = strconv.AppendInt(nil, int64(1_000_000+i), 10)
			if i%2 == 0 {
				if i > 0 {
					sql.WriteByte(',')
				}
				fmt.Fprintf(&sql, "($%d,$%d)", i+1, i+2)
			}
		}
		return conn.PgConn().ExecParams(ctx, sql.String(), values, nil, nil, nil).Read().Err
	}
	direct := c.Connect(t, db, "postgres")
	for _, n := range []int{10_000, 65_534} {
		if err := insert(n); err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if got := number(t, direct, "DELETE FROM acct WHERE id >= 1000000 RETURNING (SELECT count(*) FROM acct WHERE id >= 1000000)"); got != int64(n/2) {
			t.Errorf("%d parameters wrote %d rows", n, got)
		}
	}
	p.Connect(t, db, user, nextToken())
	if err := insert(10_000); code(err) != "ZF001" {
		t.Errorf("stale: %v", err)
	}
}

// Thousands of messages before the first reply is read.
func TestPipelineOfThousands(t *testing.T) {
	c, db, p := start(t)
	token := nextToken()
	conn := p.Connect(t, db, user, token)
	ctx := context.Background()
	before := peak(t, p.Pid())
	const n = 5000
	batch := func() ([]*pgconn.Result, error) { // one implicit transaction
		b := &pgconn.Batch{}
		for range n {
			b.ExecParams("UPDATE acct SET bal = bal + 1 WHERE id = 1", nil, nil, nil, nil)
		}
		return conn.PgConn().ExecBatch(ctx, b).ReadAll()
	}
	if results, err := batch(); err != nil || len(results) != n {
		t.Fatalf("%d results, %v", len(results), err)
	}
	segments := func() (done, stale int, err error) { // a Sync behind each
		pipeline := conn.PgConn().StartPipeline(ctx)
		for range n {
			pipeline.SendQueryParams("UPDATE acct SET bal = bal + 1 WHERE id = 1", nil, nil, nil, nil)
			if err := pipeline.Sync(); err != nil {
				return done, stale, err
			}
		}
		for {
			r, err := pipeline.GetResults()
			switch r := r.(type) {
			case *pgconn.ResultReader:
				if _, err = r.Close(); err == nil {
					done++
				}
			case nil:
				if err == nil {
					return done, stale, pipeline.Close()
				}
			}
			if code(err) == "ZF001" {
				stale++
			} else if err != nil {
				return done, stale, err
			}
		}
	}
	if done, stale, err := segments(); done != n || stale != 0 || err != nil {
		t.Fatalf("%d done, %d stale, %v", done, stale, err)
	}
	if got := number(t, c.Connect(t, db, "postgres"), "SELECT bal FROM acct WHERE id = 1"); got != 2*n {
		t.Errorf("%d updates, want %d", got, 2*n)
	}
	p.Connect(t, db, user, nextToken())
	if results, err := batch(); code(err) != "ZF001" || len(results) > 1 {
		t.Errorf("stale batch: %d results, %v", len(results), err)
	}
	if done, stale, err := segments(); done != 0 || stale != n || err != nil {
		t.Errorf("stale segments: %d done, %d stale, %v", done, stale, err)
	}
	if grown := peak(t, p.Pid()) - before; grown > 64<<20 {
		t.Errorf("the proxy took %d MB", grown>>20)
	}
}

// pgbouncer#1056: a startup packet larger than what is read at a time, byte by byte.
func TestLargeStartupPacket(t *testing.T) {
	_, db, p := start(t)
	token := nextToken()
	var options strings.Builder
	for i := 0; options.Len() < 9700; i++ {
		fmt.Fprintf(&options, "-c a.x%d=%d ", i, i)
	}
	client, err := conversation.Open(p.Addr(), proxytest.SingleBytes, conversation.Startup("user", user, "database", db, "options", options.String()+"-c fence.token="+token))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if raw, err := client.UntilReady(); err != nil || raw[len(raw)-1][0] != 'Z' {
		t.Fatalf("%q, %v", raw, err)
	}
	query, _ := conversation.Encode(nil, "Query SHOW fence.token")
	client.Write(query)
	raw, err := client.UntilReady()
	if err != nil || len(raw) != 4 || conversation.Show(raw[1][0], raw[1][5:]) != "D("+token+")" {
		t.Fatalf("%q, %v", raw, err)
	}
}
