package tokens

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

// Evictor ends the sessions that keep a raise waiting which somebody else runs, as a lock client does that raises by
// acquiring. It is for one raise and not safe for concurrent use.
type Evictor struct {
	flight flight
	rounds eviction
	log    *zap.Logger
}

// NewEvictor makes one for a raise of the fence in the database db. events and log may be nil.
func NewEvictor(db, fence string, t Token, events ControlEvents, log *zap.Logger) *Evictor {
	if events == nil {
		events = noEvents{}
	}
	if log == nil {
		log = zap.NewNop()
	}
	c := &Control{cfg: ControlConfig{Events: events, Log: log}}
	e := &Evictor{log: log.With(zap.String("database", db), zap.String("fence", fence))}
	e.flight.db, e.flight.want, e.flight.start = &database{control: c, name: db}, target{fence, t}, time.Now()
	return e
}

// Round ends whoever is in the way of the raise that waits in the backend with the pid waiter, on a connection that is
// not that backend's, and returns how many were in the way. The role needs what MissingGrants names.
func (e *Evictor) Round(ctx context.Context, c *pgx.Conn, waiter uint32) (int, error) {
	e.rounds.rounds++
	n, err := e.rounds.sweep(ctx, e.log, &e.flight, &conn{Conn: c}, waiter)
	e.flight.db.control.cfg.Events.RaiseWaiting(e.flight.db.name, e.flight.want.fence, time.Since(e.flight.start), n)
	return n, err
}

// Next is how long to wait until the next round.
func (e *Evictor) Next() time.Duration { return e.rounds.next() }

// Done tells of the sessions that the last rounds have ended, when the raise waits no more.
func (e *Evictor) Done() { e.rounds.report(&e.flight) }
