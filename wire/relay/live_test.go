package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// live starts a server with the real engine, in each mode that a test wants, in front of a PostgreSQL.
func live(t *testing.T, c *pgtest.Cluster, mode Mode, change func(*ServerConfig)) *testServer {
	t.Helper()
	analyzer, err := rewrite.New(rewrite.Config{Fences: []rewrite.Fence{{Name: "billing", Tables: []string{"acct"}}}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{Mode: mode, Analyzer: analyzer, Fences: []string{"billing"}, Bare: "billing",
		Shadow: new(ShadowMarks), Known: new(tokens.Known), MaxStatementBytes: 1 << 20}
	return startServer(t, c.Addr(), nil, func(sc *ServerConfig) {
		sc.Current = func() *Config { return cfg }
		if change != nil {
			change(sc)
		}
	})
}

func (s *testServer) dsn(db string, params ...string) string {
	dsn := fmt.Sprintf("postgres://postgres@%s/%s?sslmode=prefer", s.addr, db)
	for _, p := range params {
		dsn += "&" + p
	}
	return dsn
}

func pgxConnect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

func TestLiveDrivers(t *testing.T) {
	pg := pgtest.Shared(t)
	for _, mode := range []Mode{ModeEnforce, ModeObserve, ModeOff} {
		s := live(t, pg, mode, nil)
		for _, exec := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
			c := pgxConnect(t, s.dsn("postgres", "default_query_exec_mode="+exec))
			ctx := context.Background()
			for range 2 {
				var n, sum int
				rows, _ := c.Query(ctx, "select i from generate_series(1, $1::int) i", 5000)
				_, err := pgx.ForEachRow(rows, []any{&n}, func() error { sum += n; return nil })
				if err != nil || sum != 5000*5001/2 {
					t.Fatalf("mode %v, %s: %d, %v", mode, exec, sum, err)
				}
			}
			if _, err := c.Exec(ctx, "select 1/0"); code(err) != "22012" {
				t.Errorf("mode %v, %s: %v", mode, exec, err)
			}
			if got, err := c.PgConn().CopyFrom(ctx, strings.NewReader("1\n2\n"), "copy nothing from stdin"); code(err) != "42P01" {
				t.Errorf("mode %v, %s: %v %v", mode, exec, got, err)
			}
		}
		out, err := exec.Command(pg.Program("psql"), s.dsn("postgres"), "-XAtc", "select 42").CombinedOutput()
		if err != nil || string(out) != "42\n" {
			t.Errorf("psql: %q %v", out, err)
		}
	}
}

func TestLiveCancel(t *testing.T) {
	s := live(t, pgtest.Shared(t), ModeEnforce, nil)
	c := pgxConnect(t, s.dsn("postgres"))
	failed := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), "select pg_sleep(60)")
		failed <- err
	}()
	watch := pgxConnect(t, s.dsn("postgres"))
	poll(t, "it sleeps", func() bool {
		var n int
		watch.QueryRow(context.Background(), "select count(*) from pg_stat_activity where pid = $1 and query like 'select pg_sleep%' and state = 'active'",
			c.PgConn().PID()).Scan(&n)
		return n == 1
	})
	if err := c.PgConn().CancelRequest(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; code(err) != "57014" {
		t.Fatal(err)
	}
}

// PostgreSQL goes away and comes back: a clear error each time, and the proxy is none the worse.
func TestLiveRestart(t *testing.T) {
	pg := pgtest.Start(t)
	s := live(t, pg, ModeEnforce, nil)
	c := pgxConnect(t, s.dsn("postgres"))
	pg.Stop()
	if _, err := c.Exec(context.Background(), "select 1"); code(err) != "57P01" {
		t.Errorf("after a fast shutdown: %v", err)
	}
	if _, err := pgx.Connect(context.Background(), s.dsn("postgres")); !strings.Contains(fmt.Sprint(err), "57P03") {
		t.Errorf("while it is down: %v", err)
	}
	pg.Restart(t)
	c = pgxConnect(t, s.dsn("postgres"))
	if _, err := c.Exec(context.Background(), "select 1"); err != nil {
		t.Error(err)
	}
	pg.Kill()
	if _, err := c.Exec(context.Background(), "select 1"); err == nil {
		t.Error("no error after a crash")
	}
	poll(t, "no session", func() bool { return s.Sessions() == 0 })
}

func TestLiveLoginFails(t *testing.T) {
	s := live(t, pgtest.Shared(t), ModeEnforce, nil)
	_, err := pgx.Connect(context.Background(), s.dsn("no_such_database"))
	if !strings.Contains(fmt.Sprint(err), `database "no_such_database" does not exist`) {
		t.Fatal(err)
	}
	s.waitEnded(t, EndLogin, 1)
}

// Bad bytes behind a login end that session with PostgreSQL's own error and no other.
func TestLiveBadMessages(t *testing.T) {
	pg := pgtest.Shared(t)
	for _, mode := range []Mode{ModeEnforce, ModeObserve, ModeOff} {
		s := live(t, pg, mode, nil)
		good := pgxConnect(t, s.dsn("postgres"))
		for _, c := range []struct{ name, in string }{
			{"length 0", "Q\x00\x00\x00\x00"},
			{"length 3", "S\x00\x00\x00\x03"},
			{"negative", "Q\xff\xff\xff\xff"},
			{"huge", "Q\x7f\xff\xff\xff"},
			{"unknown type", "\x01\x00\x00\x00\x04"},
			{"random", "\x93\x1f\x88\x02\x4c\x00\x01\xff\xee\xdd\x93\x1f\x88"},
			{"huge bind", "B\x3f\xff\xff\xff\x00\x00"},
		} {
			t.Run(fmt.Sprint(mode, c.name), func(t *testing.T) {
				conn := rawLogin(t, s.addr)
				send(t, conn, []byte(c.in))
				conn.CloseWrite()
				b, err := io.ReadAll(conn)
				if err != nil {
					t.Fatalf("%q, %v", b, err)
				}
				if strings.HasPrefix(c.name, "huge b") { // the rest never comes
					return
				}
				if mode != ModeOff && !bytes.Contains(b, []byte("C08P01\x00")) {
					t.Errorf("got %q", b)
				}
			})
		}
		if _, err := good.Exec(context.Background(), "select 1"); err != nil {
			t.Error(err)
		}
	}
}

// rawLogin logs in and reads up to the first ReadyForQuery.
func rawLogin(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c := connect(t, addr)
	send(t, c, startupPacket("user", "postgres", "database", "postgres"))
	readToReady(t, c)
	return c
}

func readToReady(t *testing.T, c net.Conn) (types string) {
	t.Helper()
	var head [wire.HeaderLen]byte
	for {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			t.Fatalf("after %q: %v", types, err)
		}
		typ, size, _ := wire.Frame(head[:])
		if _, err := io.CopyN(io.Discard, c, int64(size-wire.HeaderLen)); err != nil {
			t.Fatal(err)
		}
		types += string(typ)
		if typ == wire.BackendReadyForQuery {
			return types
		}
	}
}

// A statement over the limit is refused in its place without being held, and the session goes on. One in COPY data's
// place streams, whatever its size.
func TestLiveLargeMessages(t *testing.T) {
	s := live(t, pgtest.Shared(t), ModeEnforce, nil)
	c := rawLogin(t, s.addr)
	huge := append(append([]byte("Q\x06\x00\x00\x05"), bytes.Repeat([]byte("x"), 100<<20)...), 0) // 96 MiB + 5
	huge = huge[:1+0x06000005]
	huge[len(huge)-1] = 0
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	send(t, c, huge)
	send(t, c, query("select 1"))
	if types := readToReady(t, c); types != "EZ" {
		t.Fatalf("got %s", types)
	}
	if types := readToReady(t, c); types != "TDCZ" {
		t.Fatalf("got %s", types)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 8<<20 {
		t.Errorf("%d bytes allocated", grown)
	}
	send(t, c, query("create temp table blob(t text); copy blob from stdin"))
	var head [wire.HeaderLen]byte
	for head[0] != wire.BackendCopyInResponse {
		if _, err := io.ReadFull(c, head[:]); err != nil {
			t.Fatal(err)
		}
		_, size, _ := wire.Frame(head[:])
		io.CopyN(io.Discard, c, int64(size-wire.HeaderLen))
	}
	data := append([]byte("d\x04\x00\x00\x04"), bytes.Repeat([]byte("y"), 64<<20)...)
	data[len(data)-1] = '\n'
	send(t, c, data)
	send(t, c, []byte("c\x00\x00\x00\x04"))
	if types := readToReady(t, c); types != "CZ" {
		t.Fatalf("got %s", types)
	}
}

// Clients that are killed in the middle of things leave nothing behind, here or in PostgreSQL.
func TestLiveStorm(t *testing.T) {
	pg := pgtest.Shared(t)
	s := live(t, pg, ModeEnforce, nil)
	admin := pg.Connect(t, "postgres", "postgres")
	rawLogin(t, s.addr).Close()
	poll(t, "no session", func() bool { return s.Sessions() == 0 })
	left := nothingLeft(t)
	for i := range 60 {
		c := connect(t, s.addr)
		send(t, c, startupPacket("user", "postgres", "database", "postgres", "application_name", "storm"))
		switch i % 4 {
		case 1:
			readToReady(t, c)
		case 2:
			readToReady(t, c)
			send(t, c, query("begin; select 1"))
			c.SetLinger(0)
		case 3:
			send(t, c, query("select generate_series(1, 100000)")) // and does not read
		}
		c.Close()
	}
	poll(t, "no session", func() bool { return s.Sessions() == 0 })
	left()
	poll(t, "no backend", func() bool {
		var n int
		err := admin.QueryRow(context.Background(), "select count(*) from pg_stat_activity where application_name = 'storm'").Scan(&n)
		return err == nil && n == 0
	})
}

func TestLiveShutdown(t *testing.T) {
	s := live(t, pgtest.Shared(t), ModeEnforce, nil)
	idle, busy := pgxConnect(t, s.dsn("postgres")), pgxConnect(t, s.dsn("postgres"))
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	tx, err := busy.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx) }()
	s.waitEnded(t, EndDrained, 1)
	if _, err := idle.Exec(ctx, "select 1"); code(err) != "57P01" {
		t.Error(err)
	}
	if _, err := tx.Exec(ctx, "select 1"); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
