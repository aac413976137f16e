package tokens

import (
	"context"
	"sync"
	"time"
)

// target is what a raise is for.
type target struct {
	fence string
	token Token
}

// database is a Control's work in one database: marks and their locks are per database.
type database struct {
	control *Control
	name    string
	conns   pool
	used    time.Time // under Control.mu

	mu           sync.Mutex
	flights      map[target]*flight
	acknowledged map[string]acknowledgement // newest per fence
	swept        int                        // how many were left when those that count no more were taken out
}

type acknowledgement struct {
	mark     Mark
	systemID string
	at       time.Time
}

// unused reports whether no raise is under way, and no connection open.
func (d *database) unused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns.mu.Lock()
	defer d.conns.mu.Unlock()
	return len(d.flights) == 0 && len(d.conns.idle) == 0
}

// remembered: the database has acknowledged this very token just now. That saves a round trip; it admits no write.
func (d *database) remembered(w target, systemID string) (Mark, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.acknowledged[w.fence]
	if !ok || a.mark.Token != w.token || time.Since(a.at) > rememberFor || (systemID != "" && systemID != a.systemID) {
		return Mark{}, false
	}
	return a.mark, true
}

func (d *database) remember(m Mark, systemID string) {
	d.control.cfg.Known.Observe(d.name, m)
	d.mu.Lock()
	defer d.mu.Unlock()
	if a, ok := d.acknowledged[m.Name]; ok && a.systemID == systemID && m.Token.Compare(a.mark.Token) < 0 {
		return // an older raise whose goroutine comes late
	}
	d.acknowledged[m.Name] = acknowledgement{mark: m, systemID: systemID, at: time.Now()}
	if len(d.acknowledged) > 2*d.swept+minSwept {
		d.sweep()
	}
}

// minSwept: so few acknowledgements are no memory to speak of.
const minSwept = 64

// sweep forgets what counts no more: a pattern such as jobs/* stands for as many fences as there are jobs. Under mu.
func (d *database) sweep() {
	for fence, a := range d.acknowledged {
		if time.Since(a.at) > rememberFor {
			delete(d.acknowledged, fence)
		}
	}
	d.swept = len(d.acknowledged)
}

// firstLook reads the marks before anything is raised, so that a list with a stale token raises none of its others,
// and a role that may not announce can still present a token that is the mark.
func (d *database) firstLook(ctx context.Context, s Session, wanted []target, mayAnnounce bool) *Error {
	for attempt := 0; ; attempt++ {
		refusal, fence, err := d.look(ctx, s, wanted, mayAnnounce)
		switch {
		case err == nil:
			return refusal
		case attempt == maxRepeats || ctx.Err() != nil || !worthRepeating(err):
			return d.unavailable(fence, err)
		}
	}
}

// look is one attempt of firstLook. An error says nothing of the tokens; fence is the one that it was met at.
func (d *database) look(ctx context.Context, s Session, wanted []target, mayAnnounce bool) (refusal *Error, fence string, err error) {
	conn, err := d.conns.get(ctx)
	if err != nil {
		return nil, wanted[0].fence, err
	}
	defer d.conns.put(conn)
	if err := conn.sameServer(s, wanted[0].fence); err != nil {
		return err, "", nil
	}
	for _, w := range wanted {
		m, since, holder, err := readMark(ctx, conn, w.fence)
		if err != nil {
			return nil, w.fence, err
		}
		if m.ID != 0 {
			d.control.cfg.Known.Observe(d.name, m)
		}
		switch order := w.token.Compare(m.Token); {
		case m.ID != 0 && order < 0:
			return staleSince(w.fence, w.token, m.Token, since, holder), "", nil
		case m.ID != 0 && order == 0:
		case !mayAnnounce:
			return &Error{Code: CodeMalformed, Fence: w.fence,
				Message: "role " + quote(s.User) + " may not announce a token for fence " + quote(w.fence),
				Hint:    "announce.roles names the roles that may; others can only present a token that is the mark already."}, "", nil
		}
	}
	return nil, "", nil
}

func readMark(ctx context.Context, conn *conn, fence string) (m Mark, since, holder string, err error) {
	rows, err := conn.Query(ctx, `SELECT m.id, m.epoch, m.token, to_char(m.raised_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS "UTC"'), coalesce(m.holder, '')
FROM fence.mark m WHERE m.name = $1::text`, fence)
	if err != nil {
		return m, "", "", err
	}
	defer rows.Close()
	for rows.Next() {
		m.Name = fence
		if err = rows.Scan(&m.ID, &m.Token.Epoch, &m.Token.Counter, &since, &holder); err != nil {
			return m, "", "", err
		}
	}
	return m, since, holder, rows.Err()
}
