package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// advisory is the backend of advisory locks: each claim has a session of its own, which is the lock.
type advisory struct {
	cfg Config
	db  *database

	mu     sync.Mutex
	idle   []*session
	closed bool
}

const (
	mostIdle  = 4
	trustIdle = minTTL / 2 // the server may end an idle session after its last TTL
)

func newAdvisory(ctx context.Context, cfg Config, db *database) (*advisory, error) {
	b := &advisory{cfg: cfg, db: db}
	var err error
	if cfg.SessionPooler {
		err = db.probePooler(ctx)
	} else {
		var s *session
		if s, err = db.newSession(ctx, false); err == nil {
			b.put(s)
		}
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *advisory) session(ctx context.Context) (*session, error) {
	for {
		b.mu.Lock()
		n := len(b.idle)
		if n == 0 {
			b.mu.Unlock()
			return b.db.newSession(ctx, b.cfg.SessionPooler)
		}
		s := b.idle[n-1]
		b.idle = b.idle[:n-1]
		b.mu.Unlock()
		if !s.dead.Load() && (time.Since(s.idleSince) < trustIdle || s.conn.PgConn().CheckConn() == nil) { // which takes 1 ms
			return s, nil
		}
		s.close()
	}
}

// put keeps a session without a lock for the next one. The server ends it when it is idle for the last TTL.
func (b *advisory) put(s *session) {
	s.idleSince = time.Now()
	b.mu.Lock()
	keep := !b.closed && len(b.idle) < mostIdle
	if keep {
		b.idle = append(b.idle, s)
	}
	b.mu.Unlock()
	if !keep {
		s.close()
	}
}

const (
	advisorySQL      = answerColumns + "fence.advisory_take($4::text, $5::text, $6::int8, $1::int8, $2::int4, $3::int4, $7::bool, $8::bool, $9::bool) AS a"
	advisoryWatchSQL = answerColumns + "fence.advisory_watch($4::text, $1::int8, $2::int4, $3::int4) AS a"
)

// take asks the server for the lock (locked: for the token only) until the answer is not "again".
func (b *advisory) take(ctx context.Context, s *session, req lockclient.Request, locked, patient bool) (a answer, err error) {
	var wait, blocked int64
	args := append(s.key.args(), req.Name, printable(req.Holder), req.TTL.Milliseconds(), req.Mode == lockclient.Shared, locked, patient)
	for range 4 {
		a = answer{}
		err = rowOf(ctx, s.conn, advisorySQL, args, a.fields(&wait, &blocked)...)
		a.blocked = time.Duration(blocked) * time.Millisecond
		switch code := state(err); {
		case code == "40001" || code == "40P01":
			locked = true // perhaps: if not, the answer is gone, and the session is closed
			err = fmt.Errorf("%w: %w", lockclient.ErrUnavailable, err)
		case err != nil || a.state != "again":
			return a, fault(ctx, err)
		}
	}
	return a, errors.Join(lockclient.ErrUnavailable, err)
}

func (b *advisory) Request(ctx context.Context, req lockclient.Request) (lockclient.Claim, error) {
	key, err := b.cfg.Keys.key(req.Name)
	if err != nil {
		return lockclient.Claim{}, err
	}
	s, err := b.session(ctx)
	if err != nil {
		return lockclient.Claim{}, err
	}
	s.key, s.mode = key, req.Mode
	ref := &tenure{session: s, req: req}
	claim := lockclient.Claim{Name: req.Name, Mode: req.Mode, Ref: ref}
	a, err := b.take(ctx, s, req, false, false)
	if err == nil && a.state == "busy" && !req.Queue {
		limited, cancel := context.WithTimeout(ctx, req.TTL/2)
		defer cancel()
		if a, err = b.finish(limited, ref, a); err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: transactions of an earlier holder have not ended", &lockclient.HeldError{Lock: req.Name})
		}
		claim.Since = time.Time{}
	}
	switch {
	case err != nil:
		s.close()
		return lockclient.Claim{}, err
	case a.state == "held":
		claim.Held, claim.Token, claim.TTL = true, a.token, req.TTL
	case !req.Queue:
		b.put(s)
		return lockclient.Claim{}, &lockclient.HeldError{Lock: req.Name, Leader: a.leader()}
	case a.state == "busy":
		ref.locked, ref.busy = true, a
	}
	return claim, nil
}

// tenure is what a claim of an advisory lock refers to.
type tenure struct {
	session *session
	req     lockclient.Request
	locked  bool // the session has the lock, the token is missing
	busy    answer
}

// Wait stands in PostgreSQL's own queue, which is first in, first out (proc.c ProcSleep).
func (b *advisory) Wait(ctx context.Context, claim lockclient.Claim) (lockclient.Claim, error) {
	t := claim.Ref.(*tenure)
	s := t.session
	sent := time.Now()
	if !t.locked {
		function := "pg_advisory_lock"
		if t.req.Mode == lockclient.Shared {
			function = "pg_advisory_lock_shared"
		}
		if _, err := s.conn.Exec(ctx, "SELECT "+s.key.call(function)); err != nil {
			return claim, b.waitError(ctx, s, err)
		}
		sent = time.Now()
		var err error
		if t.busy, err = b.take(ctx, s, t.req, true, false); err != nil {
			return claim, b.waitError(ctx, s, err)
		}
	}
	a := t.busy
	if a.state == "busy" {
		var err error
		if a, err = b.finish(ctx, t, a); err != nil {
			return claim, b.waitError(ctx, s, err)
		}
		sent = time.Now()
		if err = s.here(ctx, t.req.TTL); err != nil {
			return claim, b.waitError(ctx, s, err)
		}
	}
	if a.state != "held" {
		s.close()
		return claim, fmt.Errorf("%w: %w", lockclient.ErrLost, ErrPooler)
	}
	claim.Held, claim.Token, claim.TTL, claim.Since = true, a.token, t.req.TTL, sent
	return claim, nil
}

func (b *advisory) waitError(ctx context.Context, s *session, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.close()
	return fault(ctx, err)
}

// finish is as for leases: wait in place, and end the sessions that are in the way for too long.
func (b *advisory) finish(ctx context.Context, t *tenure, a answer) (answer, error) {
	type outcome struct {
		a   answer
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		a, err := b.take(ctx, t.session, t.req, true, true)
		done <- outcome{a, err}
	}()
	evictor := tokens.NewEvictor(b.db.name, t.req.Name, a.token, b.cfg.Events, nil)
	defer evictor.Done()
	var over <-chan time.Time
	if b.cfg.Grace > 0 {
		over = time.After(max(b.cfg.Grace-a.blocked, 0))
	}
	for {
		select {
		case o := <-done:
			return o.a, o.err
		case <-over:
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			if conn, err := b.db.ask.Acquire(limited); err == nil {
				evictor.Round(limited, conn.Conn(), t.session.pid)
				conn.Release()
			}
			cancel()
			over = time.After(max(evictor.Next(), 50*time.Millisecond))
		}
	}
}

// Connection is that of the session that has the lock.
func (b *advisory) Connection(claim lockclient.Claim) syscall.Conn {
	conn := claim.Ref.(*tenure).session.conn.PgConn().Conn()
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	raw, _ := conn.(syscall.Conn)
	return raw
}

// Renew tells the server that the session is in use, and learns that it is still there.
func (b *advisory) Renew(ctx context.Context, claim lockclient.Claim) (time.Duration, error) {
	t := claim.Ref.(*tenure)
	if t.session.dead.Load() {
		return 0, fmt.Errorf("%w: its session has ended", lockclient.ErrLost)
	}
	err := t.session.here(ctx, t.req.TTL)
	switch {
	case err == nil:
		return claim.TTL, nil
	case errors.Is(err, lockclient.ErrLost), ctx.Err() != nil:
		return 0, err
	case t.session.dead.Load():
		return 0, fmt.Errorf("%w: its session has ended: %w", lockclient.ErrLost, err)
	}
	return 0, fault(ctx, err)
}

func (b *advisory) Release(ctx context.Context, claim lockclient.Claim) error {
	t := claim.Ref.(*tenure)
	s := t.session
	if s.dead.Load() {
		return lockclient.ErrLost
	}
	if !claim.Held {
		s.close()
		return nil
	}
	function := "pg_advisory_unlock"
	if t.req.Mode == lockclient.Shared {
		function = "pg_advisory_unlock_shared"
	}
	unlocked := false
	err := s.do(ctx, t.req.TTL, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT "+s.key.call(function)).Scan(&unlocked)
	})
	if err != nil || !unlocked {
		s.close() // that releases it as well
		if err == nil || state(err) != "" {
			return lockclient.ErrLost // another session answered, or this one was ended before
		}
		return nil
	}
	b.put(s)
	return nil
}

// Observe looks from time to time: PostgreSQL tells nobody when an advisory lock changes hands.
func (b *advisory) Observe(ctx context.Context, name string, yield func(lockclient.Leader) bool) error {
	key, err := b.cfg.Keys.key(name)
	if err != nil {
		return err
	}
	tick := time.NewTicker(2 * b.cfg.Poll)
	defer tick.Stop()
	for {
		var a answer
		var wait, blocked int64
		if err := b.db.row(ctx, b.db.ask, advisoryWatchSQL, append(key.args(), name), a.fields(&wait, &blocked)...); err != nil {
			return err
		}
		if a.state != "held" {
			a = answer{}
		}
		if !yield(a.leader()) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *advisory) Capabilities() lockclient.Capabilities {
	return lockclient.Capabilities{Issuer: b.db.issuer(), Token: lockclient.Strict, FIFO: true, Shared: true, MinTTL: minTTL, SessionBound: true}
}

func (b *advisory) Close() error {
	b.mu.Lock()
	idle := b.idle
	b.idle, b.closed = nil, true
	b.mu.Unlock()
	soon(func() {
		for _, s := range idle {
			s.close()
		}
		b.db.close()
	})
	return nil
}
