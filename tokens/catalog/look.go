package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

const (
	beat       = 10 * time.Second // a server that says nothing is asked for a sign of life so often
	answerTime = 5 * time.Second  // for a question that costs the server nothing; then the connection counts as lost
	lookTime   = 30 * time.Second // for reading everything
	retryFirst = 250 * time.Millisecond
	retryLast  = 10 * time.Second
)

// run looks at the database until nobody asks for it any more.
func (d *Watched) run() {
	w := d.watcher
	defer d.tried()
	defer d.settle()
	pause := retryFirst
	for d.ctx.Err() == nil {
		begin := time.Now()
		worked, err := d.stayOrVisit()
		switch {
		case d.ctx.Err() != nil:
			return
		case err == nil:
			pause = retryFirst
			continue
		}
		if dropped(err) { // whoever connects to one of this name asks again
			w.mu.Lock()
			d.forget()
			w.mu.Unlock()
			return
		}
		w.cfg.Failed()
		if worked { // the connection is lost: perhaps only that, so those who wait for a look go on to
			d.unsettle()
			d.lost.Store(true)
			d.tried()
			if pause = retryFirst; time.Since(begin) < time.Second {
				d.rest(pause)
			}
			continue
		}
		if d.failed(err) { // once until it works again
			w.cfg.Log.Error("cannot read the catalog: sessions are judged by the configuration, and by what was read before",
				zap.String("database", d.name), zap.Error(err))
		}
		d.settle()
		d.tried()
		d.rest(pause)
		pause = min(2*pause, retryLast, max(w.cfg.Every, retryFirst))
	}
}

// dropped reports whether there is no such database any more.
func dropped(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "3D000"
}

// rest waits before the next try. Somebody who asks for it gets one at once, but not more than a few in a second.
func (d *Watched) rest(pause time.Duration) {
	pause += rand.N(pause/4 + 1) // many databases are lost at the same time
	least := min(pause, retryFirst)
	if !d.sleep(least) {
		return
	}
	select {
	case <-d.ctx.Done():
	case <-d.again:
	case <-time.After(pause - least):
	}
}

// spare makes a pause between looks that are asked for, unless somebody waits for the next one.
func (d *Watched) spare(t time.Duration) {
	select {
	case <-d.ctx.Done():
	case <-d.hurry:
	case <-time.After(t):
	}
}

// sleep reports whether the database is still watched.
func (d *Watched) sleep(t time.Duration) bool {
	select {
	case <-d.ctx.Done():
		return false
	case <-time.After(t):
		return true
	}
}

// stayOrVisit watches over a connection that it keeps, if there is one for this database, or connects for a single look
// and waits until it is time for another one. worked: a look worked before the error.
func (d *Watched) stayOrVisit() (worked bool, err error) {
	w := d.watcher
	select {
	case w.kept <- struct{}{}:
		defer func() { <-w.kept }()
		return d.stay()
	default:
	}
	w.saysFull(d.name)
	took, err := d.visit()
	if err != nil {
		return false, err
	}
	next := time.NewTimer(w.cfg.Every)
	defer next.Stop()
	select {
	case <-d.ctx.Done():
	case <-next.C:
	case <-d.again:
		d.last.print = "" // it was asked for
		d.spare(min(10*took, time.Second) - took)
	case w.kept <- struct{}{}:
		defer func() { <-w.kept }()
		return d.stay()
	}
	return true, nil
}

// visit connects for a look. It takes less time than that when the fingerprint is the same.
func (d *Watched) visit() (took time.Duration, err error) {
	select {
	case d.watcher.looking <- struct{}{}:
		defer func() { <-d.watcher.looking }()
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
	begin := time.Now()
	conn, err := d.connect("SET lock_timeout = '5s'") // others want to look as well
	if err != nil {
		return 0, err
	}
	defer d.disconnect(conn)
	asked := d.begin()
	now, err := d.print(conn)
	if err != nil {
		return 0, err
	}
	if now == d.last.print && d.last.skipped < 9 && d.Err() == nil {
		d.last.skipped++
		d.lost.Store(false)
		return time.Since(begin), nil
	}
	if err := d.look(conn, asked); err != nil {
		return 0, err
	}
	d.last.print, d.last.skipped = now, 0
	return time.Since(begin), nil
}

// turn waits until few others look. It does not wait for ever: somebody may have locked the catalog that they read.
func (d *Watched) turn() (over func()) {
	late := time.NewTimer(d.watcher.answer)
	defer late.Stop()
	select {
	case d.watcher.looking <- struct{}{}:
		return func() { <-d.watcher.looking }
	case <-late.C:
	case <-d.ctx.Done():
	}
	return func() {}
}

// stay reads and waits, on one connection, until something fails.
func (d *Watched) stay() (worked bool, err error) {
	d.keeps.Store(true)
	defer d.keeps.Store(false)
	d.last.print = "" // there are newer looks than that behind it
	over := d.turn()
	conn, err := d.connect("")
	if err != nil {
		over()
		return false, err
	}
	defer d.disconnect(conn)
	listening := false
	var pace pace
	for {
		err := d.listen(conn, &listening)
		begin := time.Now()
		asked, before := d.begin(), ""
		if err == nil { // before the look: what changes during it is found the next time
			before, err = d.print(conn)
		}
		if err == nil {
			err = d.look(conn, asked)
		}
		over()
		if err != nil {
			return worked, err
		}
		worked = true
		pace.looked(begin, time.Now())
		for skipped := 0; skipped < 9; skipped++ {
			told, err := d.wait(conn)
			if err != nil {
				return true, err
			}
			if told {
				d.spare(pace.wait(time.Now()))
				break
			}
			if err := d.listen(conn, &listening); err != nil {
				return true, err
			}
			now, err := d.print(conn)
			if err != nil {
				return true, err
			}
			if now != before {
				break
			}
		}
		over = d.turn()
	}
}

// settings make nobody wait for a server that is gone, nor the server for us.
const settings = `SET default_transaction_read_only = on;
SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout');
SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4; SET tcp_user_timeout = '30s'; `

func (d *Watched) connect(then string) (*pgx.Conn, error) {
	cfg := d.watcher.base.Copy()
	cfg.Database = d.name
	ctx, cancel := context.WithTimeout(d.ctx, 2*d.watcher.answer)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("SET statement_timeout = %d; ", lookTime.Milliseconds())+settings+then)
	if err != nil {
		d.disconnect(conn)
		return nil, err
	}
	return conn, nil
}

func (d *Watched) disconnect(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}

// wait returns true when somebody told of a change, false when it is time to look for oneself. A server that does not
// answer meanwhile is an error.
func (d *Watched) wait(conn *pgx.Conn) (told bool, err error) {
	beat := d.watcher.beat
	for left := d.watcher.cfg.Every; ; left -= beat {
		told, err := d.hear(conn, min(left, beat))
		if told || err != nil || left <= beat {
			return told, err
		}
		ctx, cancel := context.WithTimeout(d.ctx, d.watcher.answer)
		err = conn.Ping(ctx)
		cancel()
		if err != nil {
			return false, err
		}
	}
}

func (d *Watched) hear(conn *pgx.Conn, limit time.Duration) (told bool, err error) {
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	heard := make(chan error, 1)
	go func() {
		_, err := conn.WaitForNotification(ctx)
		heard <- err
	}()
	select {
	case err = <-heard:
	case <-d.again:
		cancel()
		<-heard
		return true, nil
	}
	if err != nil && ctx.Err() != nil && d.ctx.Err() == nil && !conn.IsClosed() {
		return false, nil
	}
	return err == nil, err
}

// begin returns what a look that begins now comes after. It is for whoever has called Hurry up to now.
func (d *Watched) begin() (asked uint64) {
	select {
	case <-d.hurry:
	default:
	}
	return d.asked.Load()
}

// look reads everything. asked: the calls of Reload and Outdate that it comes after.
func (d *Watched) look(conn *pgx.Conn, asked uint64) error {
	ctx, cancel := context.WithTimeout(d.ctx, lookTime)
	defer cancel()
	s, err := Read(ctx, conn, d.watcher.cfg.Fences)
	if err != nil {
		return err
	}
	d.show(s)
	d.seen.Store(asked)
	d.lost.Store(false)
	d.settle()
	d.tried()
	return nil
}

// print takes the fingerprint.
func (d *Watched) print(conn *pgx.Conn) (string, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.watcher.answer)
	defer cancel()
	return fingerprint(ctx, conn)
}

// listen asks to be told of changes, which a standby cannot (PreventCommandDuringRecovery): there it is asked again until the
// server is promoted.
func (d *Watched) listen(conn *pgx.Conn, listening *bool) error {
	if *listening {
		return nil
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.watcher.answer)
	defer cancel()
	var recovery bool
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_is_in_recovery()").Scan(&recovery); err != nil || recovery {
		return err
	}
	*listening = true
	_, err := conn.Exec(ctx, "LISTEN fence_ddl")
	return err
}
