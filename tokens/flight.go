package tokens

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

// flight is one raise on its way, for all who want it: it waits in place on a connection of its own and does not end
// with the session that asked first. A raise that gave up after a lock_timeout and tried again would lose its place in
// the queue each time, and starve.
type flight struct {
	db      *database
	want    target
	session Session // that asked first
	policy  *Policy // of that session
	start   time.Time
	waiter  atomic.Uint32 // pid of the backend that runs it, 0 for none

	done chan struct{} // closed when mark and err are final
	mark Mark
	err  *Error
}

// raise joins the flight to the target, or starts it.
func (d *database) raise(w target, s Session, p *Policy) (*flight, *Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.flights[w]; f != nil && (s.SystemID == "" || s.SystemID == f.session.SystemID) {
		return f, nil
	}
	if len(d.flights) >= maxFlights {
		return nil, &Error{Code: CodeUnavailable, Fence: w.fence,
			Message: "fence " + quote(w.fence) + " is not available: too many takeovers are waiting",
			Hint:    "See which sessions they wait for: fenceproxy fence show."}
	}
	f := &flight{db: d, want: w, session: s, policy: p, start: time.Now(), done: make(chan struct{})}
	if err := d.control.begin(f.run); err != nil {
		return nil, d.unavailable(w.fence, err)
	}
	d.flights[w] = f // run ends no earlier than this lock
	return f, nil
}

type outcome struct {
	mark     Mark
	raised   bool
	from     Token
	systemID string
	err      *Error
}

func (f *flight) run() {
	c := f.db.control
	result := make(chan outcome, 1)
	go func() { result <- f.raise() }()

	var over <-chan time.Time // the grace
	if f.policy.Grace > 0 {
		timer := time.NewTimer(f.policy.Grace)
		defer timer.Stop()
		over = timer.C
	}
	var ev eviction
	for {
		select {
		case o := <-result:
			ev.report(f)
			f.land(o)
			return
		case <-over:
			n := ev.round(c.ctx, f)
			c.cfg.Events.RaiseWaiting(f.db.name, f.want.fence, time.Since(f.start), n)
			over = time.After(ev.next())
		}
	}
}

func (f *flight) land(o outcome) {
	d, c := f.db, f.db.control
	f.mark, f.err = o.mark, o.err
	if f.err == nil {
		d.remember(f.mark, o.systemID)
	}
	d.mu.Lock()
	if d.flights[f.want] == f {
		delete(d.flights, f.want)
	}
	d.mu.Unlock()
	waited := time.Since(f.start)
	switch {
	case f.err != nil:
		c.cfg.Log.Info("token refused", zap.String("database", d.name), zap.String("fence", f.want.fence), zap.Stringer("token", f.want.token),
			zap.String("code", f.err.Code), zap.String("role", f.session.User))
		c.cfg.Events.RaiseFailed(d.name, f.want.fence, f.err.Code)
	case o.raised:
		c.cfg.Log.Info("mark raised", zap.String("database", d.name), zap.String("fence", f.want.fence), zap.Stringer("from", o.from),
			zap.Stringer("to", f.want.token), zap.String("role", f.session.User), zap.Duration("waited", waited))
		c.cfg.Events.Raised(d.name, f.mark, o.from, waited)
	}
	close(f.done)
}

const raiseSQL = "SELECT r.id, r.raised, coalesce(r.old_epoch, 0), coalesce(r.old_token, 0)" +
	" FROM fence.raise($1::text, $2::int8, $3::int8, nullif($4::text, ''), nullif($5::int8, -1)) AS r"

// raise runs fence.raise, one round trip, and again when it failed by no fault of its own: it may be repeated, for what
// it wants is a state.
func (f *flight) raise() (o outcome) {
	d := f.db
	ctx := d.control.ctx
	for attempt := 0; ; attempt++ {
		conn, err := d.conns.get(ctx)
		if err == nil {
			if o.err = conn.sameServer(f.session, f.want.fence); o.err != nil {
				d.conns.put(conn)
				return o
			}
			o.mark = Mark{Name: f.want.fence, Token: f.want.token}
			o.systemID = conn.systemID
			conn.warning = ""
			f.waiter.Store(conn.PgConn().PID())
			err = conn.QueryRow(ctx, raiseSQL, f.want.fence, f.want.token.Epoch, f.want.token.Counter, holder(f.session), max(f.policy.MaxJump, -1)).
				Scan(&o.mark.ID, &o.raised, &o.from.Epoch, &o.from.Counter)
			f.waiter.Store(0)
			if err == nil && conn.warning != "" {
				// "canceling wait for synchronous replication": committed here, and perhaps nowhere else
				err = errors.New(conn.warning)
				d.conns.discard(conn)
				o.err = d.unavailable(f.want.fence, err)
				return o
			}
			if sqlstate(err) == CodeStale { // what rejects this one may reject its next session early
				if m, _, _, err := readMark(ctx, conn, f.want.fence); err == nil && m.ID != 0 {
					d.control.cfg.Known.Observe(d.name, m)
				}
			}
			d.conns.put(conn)
			if err == nil {
				return o
			}
		}
		if attempt == maxRepeats || ctx.Err() != nil || !worthRepeating(err) {
			o.err = d.unavailable(f.want.fence, err)
			return o
		}
	}
}

// maxRepeats of what is done over a control connection that turns out to be broken: one for each that may lie idle would be
// enough, but for what goes wrong meanwhile.
const maxRepeats = 3

// worthRepeating: the connection broke or was ended, the statement was cancelled, or lost a deadlock to a DBA's own
// UPDATE of the mark.
func worthRepeating(err error) bool {
	switch sqlstate(err) {
	case "40P01", "40001", "57014", "57P01":
		return true
	case "":
	default:
		return false
	}
	var dial *pgconn.ConnectError
	return !errors.As(err, &dial) && !errors.Is(err, context.Canceled)
}

func sqlstate(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// holder is what the mark remembers of who asked: application and role, in printable ASCII for any server encoding.
func holder(s Session) string {
	text := s.User
	if s.Application != "" {
		text = s.Application + " (" + s.User + ")"
	}
	text = quote(text)
	return text[1 : len(text)-1]
}
