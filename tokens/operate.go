package tokens

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

// Raise makes t the mark of the fence in the DSN's database, as Announce does, but however far it is above the mark. It
// returns when the mark is durable, or when ctx ends: then the raise ends too. holder is shown to those it locks out.
// After grace (0: 10 s, negative: never) it ends the sessions in its way; events and log may be nil. The role of the DSN
// is a member of fence_control.
func Raise(ctx context.Context, dsn, fence string, t Token, holder string, grace time.Duration, events ControlEvents, log *zap.Logger) (Mark, *Error) {
	c, err := NewControl(ControlConfig{DSN: dsn, Fences: []string{fence}, Grace: grace, MaxJump: -1, Events: events, Log: log})
	if err != nil {
		return Mark{}, &Error{Code: CodeMalformed, Message: err.Error()}
	}
	defer c.Close()
	marks, e := c.Announce(ctx, Session{Database: c.base.Database, User: holder}, List{{Fence: fence, Token: t}})
	if e != nil {
		return Mark{}, e
	}
	return marks[0], nil
}

// BumpEpoch raises the epoch of a fence that has a mark: all its tokens are stale then. The reason goes to the history.
// It waits for guarded transactions. conn's role is a member of fence_operator; conn is not in a transaction.
func BumpEpoch(ctx context.Context, conn *pgx.Conn, fence, reason string) (Mark, *Error) {
	m := Mark{Name: fence}
	err := conn.QueryRow(ctx, "SELECT b.id, b.epoch FROM fence.bump_epoch($1::text, $2::text) AS b", fence, reason).Scan(&m.ID, &m.Token.Epoch)
	if err != nil {
		return Mark{}, FromDatabase(fence, err)
	}
	return m, nil
}

// FenceStatus is a mark with who set it and what goes on around it right now.
type FenceStatus struct {
	Mark
	Holder   string // as told by the raise; "" when unknown
	RaisedAt time.Time
	RaisedBy string // database role
	Guarded  int    // transactions that have passed the guard and not ended
	Waiting  int    // raises that wait for them
}

// Status returns the marks of the database ordered by name, or only that of one fence when name is not "".
func Status(ctx context.Context, conn *pgx.Conn, name string) ([]FenceStatus, error) {
	rows, err := conn.Query(ctx, `SELECT s.id, s.name, s.epoch, s.token, coalesce(s.holder, ''), s.raised_at, s.raised_by, s.guarded, s.waiting
FROM fence.status(nullif($1::text, '')) AS s`, name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s FenceStatus, err error) {
		err = row.Scan(&s.ID, &s.Name, &s.Token.Epoch, &s.Token.Counter, &s.Holder, &s.RaisedAt, &s.RaisedBy, &s.Guarded, &s.Waiting)
		return s, err
	})
}

// Change is one entry of a fence's history.
type Change struct {
	At     time.Time
	By     string // database role
	Holder string
	From   *Token // nil: the fence's first token
	To     Token
	Reason string // of an epoch bump
}

// History returns the newest changes of a fence's mark, newest first. The database keeps 100 per fence.
func History(ctx context.Context, conn *pgx.Conn, name string, limit int) ([]Change, error) {
	rows, err := conn.Query(ctx, `SELECT h.at, h.by_role::text, coalesce(h.holder, ''), h.old_epoch, h.old_token, h.epoch, h.token, coalesce(h.reason, '')
FROM fence.history AS h WHERE h.name = $1::text ORDER BY h.id DESC LIMIT $2::int4`, name, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Change, err error) {
		var epoch, counter *int64
		err = row.Scan(&c.At, &c.By, &c.Holder, &epoch, &counter, &c.To.Epoch, &c.To.Counter, &c.Reason)
		if epoch != nil && counter != nil {
			c.From = &Token{*epoch, *counter}
		}
		return c, err
	})
}

// Blocker is a session or a prepared transaction that a raise of the fence waits for.
type Blocker struct {
	PID         int    // 0 for a prepared transaction
	GID         string // of a prepared transaction
	Role        string
	Application string
	State       string // as in pg_stat_activity; "" when the caller may not see it
	WaitEvent   string
	Since       time.Time // start of its transaction; zero when unknown
	Exclusive   bool      // not a guard: a raise, or a lock of somebody's own
}

// Blockers lists what a raise of the fence would wait for now.
func Blockers(ctx context.Context, conn *pgx.Conn, name string) ([]Blocker, error) {
	return listBlockers(ctx, conn, name, 0)
}

// listBlockers lists only what the backend waiter waits for, unless waiter is 0.
func listBlockers(ctx context.Context, conn *pgx.Conn, name string, waiter uint32) ([]Blocker, error) {
	rows, err := conn.Query(ctx, `SELECT coalesce(b.pid, 0), coalesce(b.gid, ''), coalesce(b.role, ''), coalesce(b.application, ''), coalesce(b.state, ''),
coalesce(b.wait_event, ''), b.since, b.exclusive FROM fence.blockers($1::text, nullif($2::int4, 0)) AS b`, name, int32(waiter))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Blocker, err error) {
		var since *time.Time
		err = row.Scan(&b.PID, &b.GID, &b.Role, &b.Application, &b.State, &b.WaitEvent, &since, &b.Exclusive)
		if since != nil {
			b.Since = *since
		}
		return b, err
	})
}
