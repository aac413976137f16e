package relay

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// pausingJudges settle, after a change of the catalog, when they are let go.
type pausingJudges struct {
	analyzer *rewrite.Analyzer
	mu       sync.Mutex
	changed  bool
	waits    chan struct{} // somebody waits
	free     chan struct{} // closed: nobody does any more
}

func (p *pausingJudges) Session(string) Judge { return p }
func (p *pausingJudges) Enter()               {}
func (p *pausingJudges) Leave()               {}

func (p *pausingJudges) Analyzer() *rewrite.Analyzer { return p.analyzer }

func (p *pausingJudges) Changed(rewrite.CatalogChange, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = true
}

func (p *pausingJudges) Settled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.changed
}

func (p *pausingJudges) Settle(ctx context.Context) {
	select {
	case p.waits <- struct{}{}:
	default:
	}
	select {
	case <-p.free:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = false
}

func livePausing(t *testing.T, loops int) (*testServer, *pausingJudges) {
	t.Helper()
	judges := &pausingJudges{waits: make(chan struct{}, 1), free: make(chan struct{})}
	s := live(t, pgtest.Shared(t), ModeEnforce, func(sc *ServerConfig) {
		cfg := *sc.Current()
		cfg.Judges, judges.analyzer = judges, cfg.Analyzer
		sc.Current, sc.Loops = func() *Config { return &cfg }, loops
	})
	return s, judges
}

// ddlSent has a session send DDL that waits for the catalog, with more behind it.
func ddlSent(t *testing.T, s *testServer, j *pausingJudges, sql string, more ...pgproto3.FrontendMessage) *hijacked {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.dsn("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.PgConn().Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Conn.Close() })
	raw.Frontend.Send(&pgproto3.Query{String: sql})
	for _, m := range more {
		raw.Frontend.Send(m)
	}
	if err := raw.Frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-j.waits:
	case <-time.After(wait):
		t.Fatal("nobody waits for the catalog")
	}
	return &hijacked{raw.Conn, raw.Frontend}
}

type hijacked struct {
	net.Conn
	front *pgproto3.Frontend
}

// ready counts the ReadyForQuery that come within the time, or up to n.
func (c *hijacked) ready(t *testing.T, within time.Duration, n int) (got int) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(within))
	defer c.SetReadDeadline(time.Time{})
	for got < n {
		m, err := c.front.Receive()
		if err != nil {
			return got
		}
		if _, ok := m.(*pgproto3.ReadyForQuery); ok {
			got++
		}
	}
	return got
}

// DDL that may make a new way to a fence is answered when the catalog was looked at, and what was sent behind it is not
// looked at before.
func TestLiveDDLWaitsForTheCatalog(t *testing.T) {
	s, j := livePausing(t, 0)
	c := ddlSent(t, s, j, "CREATE OR REPLACE VIEW held AS SELECT 1", &pgproto3.Query{String: "SELECT 1"}, &pgproto3.Parse{Query: "SELECT 2"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{})
	if n := c.ready(t, 200*time.Millisecond, 1); n != 0 {
		t.Error("answered before")
	}
	close(j.free)
	if n := c.ready(t, wait, 3); n != 3 {
		t.Errorf("%d of 3 answers", n)
	}
}

// I1: nobody is told of DDL before the look, and nothing behind it is carried out: not by a Sync that is sent behind it, nor
// because the client has closed its side.
func TestI1LiveNothingIsAnsweredBeforeTheLook(t *testing.T) {
	const ddl = "CREATE OR REPLACE VIEW held AS SELECT 1"
	for _, tt := range []struct {
		name string
		more []pgproto3.FrontendMessage
		ends bool
		want int
	}{
		{"Syncs", []pgproto3.FrontendMessage{&pgproto3.Sync{}, &pgproto3.Sync{}}, false, 3},
		{"end of stream", []pgproto3.FrontendMessage{&pgproto3.Query{String: "SELECT 1"}, &pgproto3.Query{String: "SELECT 2"}}, true, 3},
		{"Terminate", []pgproto3.FrontendMessage{&pgproto3.Terminate{}}, true, 1},
	} {
		for driver, loops := range map[string]int{"loop": 0, "pumps": -1} {
			t.Run(tt.name+", "+driver, func(t *testing.T) {
				s, j := livePausing(t, loops)
				c := ddlSent(t, s, j, ddl, tt.more...)
				if tt.ends {
					c.Conn.(*net.TCPConn).CloseWrite()
				}
				if n := c.ready(t, 100*time.Millisecond, 1); n != 0 {
					t.Error("answered before")
				}
				close(j.free)
				if n := c.ready(t, wait, tt.want); n != tt.want {
					t.Errorf("%d of %d answers", n, tt.want)
				}
			})
		}
	}
}

// Whoever has changed nothing of that kind does not wait.
func TestLiveOtherDDLDoesNotWait(t *testing.T) {
	s, _ := livePausing(t, 0)
	other := pgxConnect(t, s.dsn("postgres"))
	for _, sql := range []string{"CREATE TEMP TABLE mine (id int)", "CREATE TABLE IF NOT EXISTS unfenced (id int)", "ALTER TABLE unfenced ADD COLUMN IF NOT EXISTS note text", "ANALYZE unfenced", "SELECT 1"} {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		if _, err := other.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
		cancel()
	}
}

// Either side may go meanwhile, and the proxy may be stopped.
func TestLiveDDLThatWaitsIsLeft(t *testing.T) {
	const ddl = "CREATE OR REPLACE VIEW held AS SELECT 1"
	t.Run("client", func(t *testing.T) {
		s, j := livePausing(t, 0)
		for range 20 {
			ddlSent(t, s, j, ddl).Close()
		}
		close(j.free)
		poll(t, "all have ended", func() bool { return s.Sessions() == 0 })
	})
	t.Run("server", func(t *testing.T) {
		s, j := livePausing(t, 0)
		ddlSent(t, s, j, ddl)
		c := pgtest.Shared(t).Connect(t, "postgres", "postgres")
		if _, err := c.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = '"+ddl+"'"); err != nil {
			t.Fatal(err)
		}
		poll(t, "none is left", func() bool { return s.Sessions() == 0 })
	})
	t.Run("proxy", func(t *testing.T) {
		s, j := livePausing(t, 0)
		c := ddlSent(t, s, j, ddl)
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			ended <- s.Shutdown(ctx)
		}()
		if n := c.ready(t, 100*time.Millisecond, 1); n != 0 {
			t.Error("answered before")
		}
		close(j.free)
		if n := c.ready(t, wait, 1); n != 1 {
			t.Error("no answer")
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
