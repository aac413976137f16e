package tokens

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	defaultGrace   = 10 * time.Second
	defaultMaxJump = 1_000_000_000
	rememberFor    = 5 * time.Second // an acknowledgement; short, for a failover may lose the mark
	maxFlights     = 32              // raises waiting in one database, each on a connection of its own
)

// Control announces and raises tokens on connections of its own, and ends the sessions that keep a raise waiting longer
// than the grace. Safe for concurrent use.
type Control struct {
	cfg    ControlConfig
	base   *pgx.ConnConfig
	ctx    context.Context // of everything that outlives the session that asked; ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu  sync.Mutex
	dbs map[string]*database
}

// NewControl checks the configuration; it connects when it is first needed.
func NewControl(cfg ControlConfig) (*Control, error) {
	base, err := controlConn(cfg.DSN)
	if err != nil {
		return nil, err
	}
	for _, f := range cfg.Fences {
		if err := ValidName(f); err != nil {
			return nil, err
		}
	}
	if cfg.Bare != "" && !contains(cfg.Fences, cfg.Bare) {
		return nil, errors.New("the fence of bare tokens is none of the fences: " + quote(cfg.Bare))
	}
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.MaxJump == 0 {
		cfg.MaxJump = defaultMaxJump
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
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close ends all raises that still wait and all connections.
func (c *Control) Close() {
	c.cancel()
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

// Announce makes every token of the list the mark of its fence and returns the marks in the order of the list, once
// they are durable. A token that is the mark already is told without waiting; a lower one is ZF001. ZF003: a token not
// fit for the configuration, another epoch, a jump over MaxJump, a role that may not announce. ZF005: no fence schema,
// no connection, another server or a standby behind the control DSN. When one token is refused at the first look, none
// is raised. A session in recovery announces nothing: nil, nil.
//
// When ctx ends first, the raise goes on without its caller: a client that retries with a short timeout meets the same
// raise again, with the same clock.
func (c *Control) Announce(ctx context.Context, s Session, l List) ([]Mark, *Error) {
	if s.InRecovery || len(l) == 0 {
		return nil, nil
	}
	if err := l.Check(c.cfg.Fences, c.cfg.Bare); err != nil {
		return nil, err
	}
	d := c.database(s.Database)
	marks := make([]Mark, len(l))
	wanted := make([]target, len(l))
	known := true
	for i, item := range l {
		wanted[i] = target{item.Fence, item.Token}
		if item.Fence == "" {
			wanted[i].fence = c.cfg.Bare
		}
		var ok bool
		if marks[i], ok = d.remembered(wanted[i], s.SystemID); !ok {
			known = false
		}
	}
	if known {
		return marks, nil
	}
	if len(l) > 1 || !c.mayAnnounce(s.User) {
		if err := d.firstLook(ctx, s, wanted); err != nil {
			return nil, err
		}
	}
	flights := make([]*flight, len(wanted))
	for i, w := range wanted {
		var err *Error
		if flights[i], err = d.raise(w, s); err != nil {
			return nil, err
		}
	}
	for i, f := range flights {
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, stillWaiting(f.want.fence)
		}
		if f.err != nil {
			return nil, f.err
		}
		marks[i] = f.mark
	}
	return marks, nil
}

func (c *Control) mayAnnounce(user string) bool {
	return len(c.cfg.Roles) == 0 || slices.Contains(c.cfg.Roles, user)
}

// Forget drops the memory of acknowledged raises in a database: after a ZF006 for an announced token, which means that
// the database has lost the mark.
func (c *Control) Forget(db string) {
	d := c.database(db)
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.acknowledged)
}

func (c *Control) database(name string) *database {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.dbs[name]
	if d == nil {
		d = &database{control: c, name: name, flights: make(map[target]*flight), acknowledged: make(map[string]acknowledgement)}
		d.conns.config = c.base.Copy()
		d.conns.config.Database = name
		c.dbs[name] = d
	}
	return d
}

type noEvents struct{}

func (noEvents) Raised(string, Mark, Token, time.Duration)       {}
func (noEvents) Evicted(string, string, int, string, string)     {}
func (noEvents) RaiseWaiting(string, string, time.Duration, int) {}
func (noEvents) RaiseFailed(string, string, string)              {}
