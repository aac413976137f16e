package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// ErrPooler refuses an advisory lock through a pooler.
var ErrPooler = errors.New("a connection pooler is between the lock client and PostgreSQL: it may give the session that holds the advisory lock to others; use mode=lease, or, if the pooler is in session mode, pooler=session")

// session is a connection that an advisory lock may live on. One question at a time; a question that is given up goes on
// in the background, for pgx closes a connection whose context ends, and the lock would be gone with it.
type session struct {
	conn *pgx.Conn
	pid  uint32 // of the backend
	key  Key
	mode lockclient.Mode

	idleSince time.Time

	dead    atomic.Bool // the connection is closed
	mu      sync.Mutex
	pending chan error // the question that is on its way
}

func (d *database) newSession(ctx context.Context, admitPooler bool) (*session, error) {
	conn, err := pgx.ConnectConfig(ctx, d.config.Copy())
	if err != nil {
		return nil, fault(ctx, err)
	}
	s := &session{conn: conn}
	err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()::oid, set_config('lock_timeout', '0', false), set_config('statement_timeout', '0', false)").Scan(&s.pid, nil, nil)
	if err == nil && s.pid != conn.PgConn().PID() && !admitPooler {
		err = ErrPooler
	}
	if err != nil {
		closeSoon(conn)
		return nil, fault(ctx, err)
	}
	return s, nil
}

// do runs one question, bounded by most, and waits for its answer until ctx ends.
func (s *session) do(ctx context.Context, most time.Duration, f func(ctx context.Context, conn *pgx.Conn) error) error {
	for {
		s.mu.Lock()
		ch, mine := s.pending, false
		if ch == nil {
			ch, mine = make(chan error, 1), true
			s.pending = ch
			go func() {
				limited, cancel := context.WithTimeout(context.Background(), most)
				defer cancel()
				err := f(limited, s.conn)
				if s.conn.IsClosed() {
					s.dead.Store(true)
				}
				s.mu.Lock()
				s.pending = nil
				s.mu.Unlock()
				ch <- err
				close(ch)
			}()
		}
		s.mu.Unlock()
		select {
		case err := <-ch:
			if mine {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// here asks whether the session is still the one that took the lock.
func (s *session) here(ctx context.Context, most time.Duration) error {
	return s.do(ctx, most, func(ctx context.Context, conn *pgx.Conn) error {
		var pid uint32
		if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()::oid").Scan(&pid); err != nil {
			return err
		}
		if pid != s.pid {
			return fmt.Errorf("%w: %w", lockclient.ErrLost, ErrPooler)
		}
		return nil
	})
}

// close ends the session and with it the lock. A question on its way is cut off.
func (s *session) close() {
	s.dead.Store(true)
	s.mu.Lock()
	asking := s.pending != nil
	s.mu.Unlock()
	if asking {
		s.conn.PgConn().Conn().Close()
		return
	}
	closeSoon(s.conn)
}

// probePooler tells a transaction pooler by its behaviour: a setting of one session shows in another, or a session has
// another backend while its former one is busy. Nothing found proves nothing.
func (d *database) probePooler(ctx context.Context) error {
	a, err := d.newSession(ctx, true)
	if err != nil {
		return err
	}
	defer a.close()
	id := newID()
	if _, err := a.conn.Exec(ctx, "SELECT pg_catalog.set_config('fence.probe', $1::text, false)", id); err != nil {
		return fault(ctx, err)
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	b, err := pgx.ConnectConfig(limited, d.config.Copy())
	if err != nil {
		return ctx.Err() // a session pooler that has no other connection to give
	}
	defer closeSoon(b)
	var seen string
	if _, err := b.Exec(limited, "BEGIN"); err != nil {
		return ctx.Err()
	}
	if err := b.QueryRow(limited, "SELECT coalesce(pg_catalog.current_setting('fence.probe', true), '')").Scan(&seen); err != nil {
		return ctx.Err()
	}
	if seen == id {
		return ErrPooler
	}
	if err := a.here(ctx, connectTimeout); errors.Is(err, ErrPooler) {
		return ErrPooler
	}
	return nil
}
