package tokens

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// eviction ends, round by round, the sessions that hold a lock of a fence's key while a raise waits for it. What cannot
// be ended (a stopped backend, a prepared transaction, a superuser's session) keeps the raise waiting, safely.
type eviction struct {
	rounds   int
	signaled map[int]Blocker // ended by us, still to be reported
	busy     map[int]bool    // exclusive and at work in the last round: a raise that may be about to commit
	failed   map[int]bool    // logged already
}

// next is the time until the next round: soon at first, so that a session ended is noticed to be gone.
func (e *eviction) next() time.Duration {
	return min(time.Duration(e.rounds)*250*time.Millisecond, 2*time.Second)
}

// round looks who is in the way right now, ends those, and returns how many there were.
func (e *eviction) round(ctx context.Context, f *flight) int {
	e.rounds++
	d, log := f.db, f.db.control.cfg.Log.With(zap.String("database", f.db.name), zap.String("fence", f.want.fence))
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	waiter := f.waiter.Load()
	if waiter == 0 {
		return 0
	}
	conn, err := d.conns.get(ctx)
	if err != nil {
		log.Warn("cannot look who keeps a takeover waiting", zap.Error(err))
		return 0
	}
	defer d.conns.put(conn)
	n, err := e.sweep(ctx, log, f, conn, waiter)
	if err != nil {
		log.Warn("cannot look who keeps a takeover waiting", zap.Error(err))
	}
	return n
}

// sweep is a round for a raise that waits in the backend waiter.
func (e *eviction) sweep(ctx context.Context, log *zap.Logger, f *flight, conn *conn, waiter uint32) (int, error) {
	// Only while our own raise waits: what is granted in that same look at the lock table is in its way, and cannot be a
	// session of the new holder.
	blockers, err := listBlockers(ctx, conn.Conn, f.want.fence, waiter)
	if err != nil {
		return 0, err
	}
	e.report(f, blockers...)
	busy := make(map[int]bool)
	for _, b := range blockers {
		if b.GID != "" {
			log.Warn("a prepared transaction keeps a takeover waiting: COMMIT PREPARED or ROLLBACK PREPARED ends it", zap.String("gid", b.GID), zap.String("role", b.Role))
			continue
		}
		if b.Exclusive && b.State == "active" {
			busy[b.PID] = true
			if !e.busy[b.PID] || b.WaitEvent == "SyncRep" {
				continue
			}
		}
		e.end(ctx, log, conn, f.want.fence, waiter, b)
	}
	e.busy = busy
	return len(blockers), nil
}

// end terminates one session, if it is still in the way.
func (e *eviction) end(ctx context.Context, log *zap.Logger, conn *conn, fence string, waiter uint32, b Blocker) {
	// A second call waits: its answer tells a stopped backend from one that is just ending.
	wait := 0
	if _, again := e.signaled[b.PID]; again {
		wait = 100
	}
	rows, err := conn.Query(ctx, `SELECT pg_terminate_backend(b.pid, $4::int8) FROM fence.blockers($1::text, $2::int4) AS b WHERE b.pid = $3::int4`, fence, int32(waiter), int32(b.PID), int64(wait))
	var ended, found bool
	if err == nil {
		for rows.Next() {
			found = true
			if err = rows.Scan(&ended); err != nil {
				break
			}
		}
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
	}
	if err == nil && !found {
		return
	}
	if err == nil && (ended || wait > 0) {
		if e.signaled == nil {
			e.signaled = make(map[int]Blocker)
		}
		e.signaled[b.PID] = b
		if !ended && !e.failed[b.PID] {
			e.fail(b.PID)
			log.Warn("a session does not end when told to: takeover keeps waiting", zap.Int("pid", b.PID), zap.String("role", b.Role), zap.String("state", b.State))
		}
		return
	}
	if !e.failed[b.PID] {
		e.fail(b.PID)
		log.Warn("a session in the way of a takeover may not be ended: the control role needs its role, or pg_signal_backend (for a superuser's session: SUPERUSER)",
			zap.Int("pid", b.PID), zap.String("role", b.Role), zap.String("state", b.State), zap.Error(err))
	}
}

func (e *eviction) fail(pid int) {
	if e.failed == nil {
		e.failed = make(map[int]bool)
	}
	e.failed[pid] = true
}

// report tells of the sessions that we ended and that are in the way no more.
func (e *eviction) report(f *flight, still ...Blocker) {
	for pid, b := range e.signaled {
		gone := true
		for _, s := range still {
			gone = gone && s.PID != pid
		}
		if !gone {
			continue
		}
		delete(e.signaled, pid)
		c := f.db.control
		c.cfg.Log.Info("session ended for a takeover", zap.String("database", f.db.name), zap.String("fence", f.want.fence), zap.Stringer("token", f.want.token),
			zap.Int("pid", pid), zap.String("role", b.Role), zap.String("application", b.Application), zap.String("state", b.State))
		c.cfg.Events.Evicted(f.db.name, f.want.fence, pid, b.Role, b.State)
	}
}
