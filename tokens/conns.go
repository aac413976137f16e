package tokens

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	maxIdle        = 4
	idleFor        = 30 * time.Second // then closed
	idleElsewhere  = 3 * time.Second  // the same in other databases than the DSN's: DROP DATABASE waits 5 s for us to leave
	trustIdle      = time.Second      // an idle connection is taken as it is
	connectTimeout = 5 * time.Second
	silence        = 30 * time.Second // of the peer's kernel, until a connection counts as dead
)

// conn is a control connection.
type conn struct {
	*pgx.Conn
	systemID   string
	inRecovery bool
	warning    string // of the last statement
	idleSince  time.Time
	expiry     *time.Timer
}

// ControlConnConfig is how connections of the control role are made: a peer that is gone is noticed within half a minute,
// by whichever side waits for the other, and nothing is kept in the session. Its database and its parameters may be changed.
func ControlConnConfig(dsn string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip, nothing kept in the session
	if cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > connectTimeout {
		cfg.ConnectTimeout = connectTimeout
	}
	dialer := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 6, Count: 4},
		Control:         dialControl,
	}
	cfg.DialFunc = dialer.DialContext
	cfg.RuntimeParams["application_name"] = "fenceproxy control"
	return cfg, nil
}

// Whatever the role or the database has for defaults: a raise waits as long as it takes, sees the present, and a client
// that vanished in the middle of one does not hold its lock. The last statement tells which server this is.
const greeting = `SET lock_timeout = 0; SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '10s';
SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout';
SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; SET search_path = pg_catalog, pg_temp;
SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4; SET tcp_user_timeout = '30s';
SELECT system_identifier, pg_is_in_recovery() FROM pg_control_system()`

// A raise whose proxy is gone need not wait on. Refused where the server's platform cannot tell.
const checkClient = "SET client_connection_check_interval = '10s'"

func connect(ctx context.Context, cfg *pgx.ConnConfig) (*conn, error) {
	c := new(conn)
	cfg = cfg.Copy()
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.warning = n.Message
		}
	}
	var err error
	if c.Conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return nil, err
	}
	results, err := c.PgConn().Exec(ctx, greeting).ReadAll()
	if err != nil {
		c.Close(ctx)
		return nil, err
	}
	who := results[len(results)-1].Rows[0]
	c.systemID, c.inRecovery = string(who[0]), string(who[1]) == "t"
	c.PgConn().Exec(ctx, checkClient).ReadAll()
	return c, nil
}

// sameServer refuses a raise that would not be seen by the session it is for.
func (c *conn) sameServer(s Session, fence string) *Error {
	if s.SystemID != "" && s.SystemID != c.systemID {
		return &Error{Code: CodeUnavailable, Fence: fence,
			Message: "fence " + quote(fence) + " is not available: the control connection leads to another server than the session's",
			Hint:    "The control DSN and the upstream DSN must lead to the same server."}
	}
	if c.inRecovery {
		return &Error{Code: CodeUnavailable, Fence: fence,
			Message: "fence " + quote(fence) + " is not available: the control connection leads to a standby",
			Hint:    "The control DSN must lead to the primary."}
	}
	return nil
}

// pool keeps a few idle connections of one database. It has no upper limit: maxFlights is.
type pool struct {
	config  *pgx.ConnConfig
	idleFor time.Duration

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

func (p *pool) get(ctx context.Context) (*conn, error) {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return connect(ctx, p.config)
		}
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		c.expiry.Stop()
		if time.Since(c.idleSince) < trustIdle {
			return c, nil
		}
		// What has been idle may lead to a server that is gone, or that is no longer the primary.
		if c.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&c.inRecovery) == nil && !c.inRecovery {
			return c, nil
		}
		p.discard(c)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (p *pool) put(c *conn) {
	if c.IsClosed() { // the others lead to the same server, and may not know yet
		p.drop()
		return
	}
	if c.PgConn().TxStatus() != 'I' {
		p.discard(c)
		return
	}
	p.mu.Lock()
	if p.closed || len(p.idle) >= maxIdle {
		p.mu.Unlock()
		p.discard(c)
		return
	}
	p.idle = append(p.idle, c)
	c.idleSince = time.Now()
	c.expiry = time.AfterFunc(p.idleFor, func() { p.expire(c) })
	p.mu.Unlock()
}

func (p *pool) expire(c *conn) {
	p.mu.Lock()
	for i := range p.idle {
		if p.idle[i] == c {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			p.mu.Unlock()
			p.discard(c)
			return
		}
	}
	p.mu.Unlock()
}

func (p *pool) discard(c *conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.Close(ctx)
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop()
}

// drop closes what is idle.
func (p *pool) drop() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.expiry.Stop()
		p.discard(c)
	}
}
