package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// Wait takes the lock when it is the ticket's turn: told by a notification, or found out at the time when the present
// lease would end, or by looking from time to time.
func (b *leases) Wait(ctx context.Context, claim lockclient.Claim) (lockclient.Claim, error) {
	turn, stop := b.hub.claim(claim.Ref.(string))
	defer stop()
	for failures := 0; ; {
		sent := time.Now()
		a, err := b.ask(ctx, takeSQL, claim.Name, claim.Ref, false)
		if err == nil && a.state == "busy" {
			claim, err = b.finish(ctx, claim, a)
			if err == nil {
				return claim, nil
			}
			a = answer{}
		}
		switch {
		case ctx.Err() != nil:
			return claim, ctx.Err()
		case errors.Is(err, lockclient.ErrUnavailable):
			failures++
			a = answer{ahead: failures}
		case err != nil:
			return claim, err
		case a.state == "held":
			return b.holds(claim, a, sent), nil
		case a.state == "gone":
			return claim, lockclient.ErrLost
		default:
			failures = 0
		}
		if err := b.pause(ctx, turn, a); err != nil {
			return claim, err
		}
	}
}

func (b *leases) holds(claim lockclient.Claim, a answer, sent time.Time) lockclient.Claim {
	claim.Held, claim.Token, claim.Since = true, a.token, sent
	return claim
}

// pause until something may have changed.
func (b *leases) pause(ctx context.Context, changed <-chan struct{}, a answer) error {
	d := time.Second
	if !b.hub.live() {
		d = min(b.cfg.Poll*time.Duration(1+a.ahead), d) // those in front look more often
	}
	d -= time.Duration(rand.Float64() * float64(d) / 4)
	if a.wait > 0 {
		d = min(d, a.wait+time.Millisecond)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// finish waits in place for transactions that were guarded under an older token, on a connection of its own: a lock
// request that gave up and came again would lose its turn to new guards each time. After the grace, counted from when
// anybody first found the lock blocked, the sessions in the way are ended. ErrLost: the ticket is gone.
func (b *leases) finish(ctx context.Context, claim lockclient.Claim, a answer) (lockclient.Claim, error) {
	conn, err := pgx.ConnectConfig(ctx, b.db.config.Copy())
	if err != nil {
		return claim, fault(ctx, err)
	}
	defer closeSoon(conn)
	type outcome struct {
		a   answer
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		var wait, blocked int64
		o.err = fault(ctx, rowOf(ctx, conn, takeSQL, []any{claim.Name, claim.Ref, true}, o.a.fields(&wait, &blocked)...))
		done <- o
	}()
	evictor := tokens.NewEvictor(b.db.name, claim.Name, a.token, b.cfg.Events, nil)
	defer evictor.Done()
	var over <-chan time.Time
	if b.cfg.Grace > 0 {
		over = time.After(max(b.cfg.Grace-a.blocked, 0))
	}
	for {
		select {
		case o := <-done:
			switch {
			case o.err != nil:
				return claim, o.err
			case o.a.state == "gone":
				return claim, lockclient.ErrLost
			case o.a.state != "held":
				return claim, lockclient.ErrUnavailable // overtaken, or the server was promoted: look again
			}
			return b.refresh(ctx, b.holds(claim, o.a, time.Time{}))
		case <-over:
			b.evict(ctx, evictor, a.ticket)
			over = time.After(max(evictor.Next(), 50*time.Millisecond))
		}
	}
}

// refresh renews a claim that was granted some unknown time ago.
func (b *leases) refresh(ctx context.Context, claim lockclient.Claim) (lockclient.Claim, error) {
	claim.Since = time.Now()
	_, err := b.Renew(ctx, claim)
	return claim, err
}

const waiterSQL = `SELECT l.pid FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND l.classid = 1178947140 AND l.objid = ($1::int8 % 2147483648)::oid AND l.objsubid = 2 AND l.granted AND d.datname = pg_catalog.current_database()`

// evict ends those whom the take of the ticket waits for. Its backend is found by the key that it holds: through a pooler
// the client does not know the pid.
func (b *leases) evict(ctx context.Context, e *tokens.Evictor, ticket int64) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := b.db.ask.Acquire(ctx)
	if err != nil {
		return
	}
	defer conn.Release()
	var waiter int32
	if conn.QueryRow(ctx, waiterSQL, ticket).Scan(&waiter) == nil {
		e.Round(ctx, conn.Conn(), uint32(waiter))
	}
}

func closeSoon(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}
