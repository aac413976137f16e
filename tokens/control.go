package tokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

// ControlConfig says who raises marks, and how.
type ControlConfig struct {
	DSN     string        // of PostgreSQL itself, past any pooler; its database is replaced by each session's
	Fences  []string      // names of all fences
	Bare    string        // fence that a token without a name is for; "" for none
	Grace   time.Duration // how long a raise waits before it ends the sessions in its way; 0 means 10 s, negative: never
	MaxJump int64         // how far above the mark an announced token may be; 0 means 10^9, negative: any
	Roles   []string      // session users that may announce; empty: all
	Known   *Known        // told of every mark seen; may be nil
	Events  ControlEvents // may be nil
	Log     *zap.Logger   // may be nil
}

// ControlEvents is told what a Control does, from its goroutines: calls must not block.
type ControlEvents interface {
	Raised(db string, m Mark, from Token, waited time.Duration)        // a new mark is durable
	Evicted(db, fence string, pid int, role, state string)             // a session was ended for a raise
	RaiseWaiting(db, fence string, waited time.Duration, blockers int) // again and again once the grace is over
	RaiseFailed(db, fence, code string)                                // SQLSTATE of the refusal
}

// Session is what SessionQuestionSQL told of the session that presents a token.
type Session struct {
	Database    string
	SystemID    string // "" skips the comparison with the control connection's
	User        string
	Application string
	InRecovery  bool
}

const (
	rememberFor = 5 * time.Second // an acknowledgement; short, for a failover may lose the mark
	maxFlights  = 32              // raises waiting in one database, each on a connection of its own
)

// Control announces and raises tokens on connections of its own, and ends the sessions that keep a raise waiting longer
// than the grace. Safe for concurrent use.
type Control struct {
	cfg    ControlConfig
	own    *Announcer // under the policy of cfg
	base   *pgx.ConnConfig
	ctx    context.Context // of everything that outlives the session that asked; ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	dbs   map[string]*database
	swept int // how many were left when those that nobody uses were taken out
}

// NewControl checks the configuration; it connects when it is first needed.
func NewControl(cfg ControlConfig) (*Control, error) {
	base, err := ControlConnConfig(cfg.DSN)
	if err != nil {
		return nil, err
	}
	if cfg.Known == nil {
		cfg.Known = new(Known)
	}
	if cfg.Events == nil {
		cfg.Events = noEvents{}
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	c := &Control{cfg: cfg, base: base, dbs: make(map[string]*database)}
	c.own, err = c.Under(Policy{Fences: cfg.Fences, Bare: cfg.Bare, Grace: cfg.Grace, MaxJump: cfg.MaxJump, Roles: cfg.Roles})
	if err != nil {
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close ends all raises that still wait and all connections.
func (c *Control) Close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.work.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.dbs {
		d.conns.close()
	}
}

// Ping tells whether raises can work in the DSN's own database: reachable, schema of this version, not a standby.
func (c *Control) Ping(ctx context.Context) error {
	d := c.database(c.base.Database)
	conn, err := d.conns.get(ctx)
	if err != nil {
		return err
	}
	defer d.conns.put(conn)
	if conn.inRecovery {
		return errors.New("the control connection leads to a standby")
	}
	err = CheckVersion(ctx, conn.Conn)
	if sqlstate(err) == "42501" {
		return fmt.Errorf("%w; a DBA runs: %s", err, c.grant())
	}
	return err
}

// Announce is that of an Announcer under the policy in the ControlConfig.
func (c *Control) Announce(ctx context.Context, s Session, l List) ([]Mark, *Error) {
	return c.own.Announce(ctx, s, l)
}

// Forget drops the memory of acknowledged raises in a database: after a ZF006 for an announced token, which means that
// the database has lost the mark.
func (c *Control) Forget(db string) {
	d := c.database(db)
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.acknowledged)
}

// begin runs f in a goroutine that Close waits for, or says that Close has been called.
func (c *Control) begin(f func()) error {
	c.mu.Lock() // a WaitGroup that is waited for must not grow
	defer c.mu.Unlock()
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.work.Go(f)
	return nil
}

func (c *Control) database(name string) *database {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.dbs[name]
	if d == nil {
		if len(c.dbs) > 2*c.swept+minSwept {
			c.sweep()
		}
		d = &database{control: c, name: name, flights: make(map[target]*flight), acknowledged: make(map[string]acknowledgement)}
		d.conns.config = c.base.Copy()
		d.conns.config.Database = name
		if d.conns.idleFor = idleFor; name != c.base.Database {
			d.conns.idleFor = idleElsewhere
		}
		c.dbs[name] = d
	}
	d.used = time.Now()
	return d
}

// unusedFor is longer than anybody holds a database who has no raise under way there.
const unusedFor = 10 * time.Minute

// sweep forgets databases that may have been dropped long ago; under mu.
func (c *Control) sweep() {
	for name, d := range c.dbs {
		if time.Since(d.used) > unusedFor && d.unused() {
			delete(c.dbs, name)
		}
	}
	c.swept = len(c.dbs)
}

type noEvents struct{}

func (noEvents) Raised(string, Mark, Token, time.Duration)       {}
func (noEvents) Evicted(string, string, int, string, string)     {}
func (noEvents) RaiseWaiting(string, string, time.Duration, int) {}
func (noEvents) RaiseFailed(string, string, string)              {}
