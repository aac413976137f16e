package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

// WatcherConfig says what to watch.
type WatcherConfig struct {
	DSN    string        // its database is replaced by each one that is watched
	Fences []Fence       //
	Every  time.Duration // between two looks when nobody tells of a change; 0 means 10 s, at least 100 ms
	Log    *zap.Logger   // may be nil
	Failed func()        // called for each look that failed; may be nil
}

// Watcher keeps a Snapshot for each database that it is asked for, on one connection each. Safe for concurrent use.
//
// How old a Snapshot can be: where the event triggers of package triggers are installed, a change is read within
// milliseconds of its commit (LISTEN fence_ddl). Elsewhere a look each Every compares a fingerprint of the catalogs, which
// costs a tenth of reading them, and reads everything when that is another one, and every tenth time in any case. While the
// database cannot be reached the last Snapshot stays.
type Watcher struct {
	cfg    WatcherConfig
	base   *pgx.ConnConfig
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu   sync.Mutex
	dbs  map[string]*Watched
	full sync.Once // of the log line that says so
}

// NewWatcher checks the configuration; it connects when it is first asked for a database.
func NewWatcher(cfg WatcherConfig) (*Watcher, error) {
	base, err := pgx.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, err
	}
	base.DefaultQueryExecMode = pgx.QueryExecModeExec
	if base.ConnectTimeout == 0 {
		base.ConnectTimeout = 5 * time.Second
	}
	base.RuntimeParams["application_name"] = "fenceproxy catalog"
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Second
	}
	cfg.Every = max(cfg.Every, 100*time.Millisecond)
	if cfg.Failed == nil {
		cfg.Failed = func() {}
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	w := &Watcher{cfg: cfg, base: base, dbs: map[string]*Watched{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w, nil
}

// Close ends all connections.
func (w *Watcher) Close() {
	w.mu.Lock() // nothing starts any more, for a WaitGroup that is waited for must not grow
	w.cancel()
	w.mu.Unlock()
	w.work.Wait()
}

// maxDatabases bounds those that are watched at a time: each takes a connection.
const maxDatabases = 100

// linger is how long a database is watched that nobody asks for any more. DROP DATABASE waits 5 s for other sessions to
// end (procarray.c CountOtherDBBackends).
const linger = 2 * time.Second

// Database returns what is known of a database, and begins to watch it. Watched.Leave must follow. nil when too many are
// watched.
func (w *Watcher) Database(name string) *Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.dbs[name]
	if d == nil {
		if len(w.dbs) >= maxDatabases {
			w.full.Do(func() {
				w.cfg.Log.Warn("too many databases: of the others the catalog is not known", zap.Int("watched", maxDatabases), zap.String("database", name))
			})
			return nil
		}
		if w.ctx.Err() != nil {
			return nil
		}
		d = &Watched{name: name, watcher: w, again: make(chan struct{}, 1), changed: make(chan struct{}), settled: make(chan struct{})}
		d.ctx, d.cancel = context.WithCancel(w.ctx)
		w.dbs[name] = d
		w.work.Go(d.run)
	}
	d.users++
	return d
}

// Databases are those that are watched, in no order.
func (w *Watcher) Databases() []*Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.dbs))
}

// Leave: whoever has asked for the database needs it no more. It goes on to answer with what it knew last.
func (d *Watched) Leave() {
	w := d.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	left := d.lefts + 1
	d.lefts = left
	time.AfterFunc(linger, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if d.users == 0 && d.lefts == left {
			d.forget()
		}
	})
}

// forget ends the watch; under Watcher.mu.
func (d *Watched) forget() {
	d.cancel()
	if d.watcher.dbs[d.name] == d {
		delete(d.watcher.dbs, d.name)
	}
}

// Watched is a database that is watched.
type Watched struct {
	name    string
	watcher *Watcher
	ctx     context.Context
	cancel  context.CancelFunc
	again   chan struct{}
	now     atomic.Pointer[Snapshot]
	asked   atomic.Uint64 // calls of Outdate
	doubts  atomic.Int64  // of Doubt, less those of Believe
	seen    atomic.Uint64 // and how many of them the last look came after
	users   int           // under Watcher.mu
	lefts   int           // likewise: how often nobody was left
	settled chan struct{} // closed after the first look
	first   sync.Once

	mu      sync.Mutex
	changed chan struct{}
	err     error
}

// Name is the database's.
func (d *Watched) Name() string { return d.name }

// Settled is closed once the database was looked at, whether that worked or not.
func (d *Watched) Settled() <-chan struct{} { return d.settled }

// Current reports whether there was a look after the last Outdate, and nobody's Doubt lasts.
func (d *Watched) Current() bool { return d.doubts.Load() == 0 && d.seen.Load() >= d.asked.Load() }

// Ended reports whether the database is not watched any more.
func (d *Watched) Ended() bool { return d.ctx.Err() != nil }

// Snapshot is the newest one, nil as long as there is none.
func (d *Watched) Snapshot() *Snapshot { return d.now.Load() }

// Changed is closed when the next Snapshot is there.
func (d *Watched) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Err says why the last look failed; nil after one that did not.
func (d *Watched) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Outdate is Reload, and Current is false until that look: DDL was seen.
func (d *Watched) Outdate() {
	d.asked.Add(1)
	d.Reload()
}

// Doubt makes Current false until as many calls of Believe: DDL was seen that is not committed yet.
func (d *Watched) Doubt() { d.doubts.Add(1) }

// Believe ends a Doubt. Outdate comes first, if the DDL may be committed.
func (d *Watched) Believe() { d.doubts.Add(-1) }

// Reload asks for a look at once: what leads to a fence may have changed, or at an operator's word.
func (d *Watched) Reload() {
	select {
	case d.again <- struct{}{}:
	default:
	}
}

func (d *Watched) run() {
	w := d.watcher
	defer d.first.Do(func() { close(d.settled) })
	for d.ctx.Err() == nil {
		err := d.watch()
		if d.ctx.Err() != nil {
			return
		}
		d.mu.Lock()
		again := d.err != nil
		d.err = err
		d.mu.Unlock()
		d.first.Do(func() { close(d.settled) })
		w.cfg.Failed()
		if !again { // once until it works again
			w.cfg.Log.Error("cannot read the catalog: sessions are judged by the configuration, and by what was read before",
				zap.String("database", d.name), zap.Error(err))
		}
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "3D000" { // dropped: whoever connects to one of this name asks again
			w.mu.Lock()
			d.forget()
			w.mu.Unlock()
			return
		}
		select {
		case <-d.ctx.Done():
		case <-d.again:
		case <-time.After(w.cfg.Every):
		}
	}
}

// watch reads and waits, on one connection, until something fails.
func (d *Watched) watch() error {
	w := d.watcher
	cfg := w.base.Copy()
	cfg.Database = d.name
	conn, err := pgx.ConnectConfig(d.ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(d.ctx, "SET statement_timeout = '1min'; SET default_transaction_read_only = on"); err != nil {
		return err
	}
	listening := false
	for {
		if err := listen(d.ctx, conn, &listening); err != nil {
			return err
		}
		// Taken before the look: what changes during it is found the next time.
		before, err := fingerprint(d.ctx, conn)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := d.look(conn); err != nil {
			return err
		}
		rest := begin.Add(min(10*time.Since(begin), time.Second)) // much DDL shall not keep the server busy with this
		for skipped := 0; skipped < 9; skipped++ {
			told, err := d.wait(conn)
			if err != nil {
				return err
			}
			if told {
				select {
				case <-d.ctx.Done():
				case <-time.After(time.Until(rest)):
				}
				break
			}
			if err := listen(d.ctx, conn, &listening); err != nil {
				return err
			}
			now, err := fingerprint(d.ctx, conn)
			if err != nil {
				return err
			}
			if now != before {
				break
			}
		}
	}
}

// listen asks to be told of changes, which a standby cannot (PreventCommandDuringRecovery): there it is asked again until the
// server is promoted.
func listen(ctx context.Context, conn *pgx.Conn, listening *bool) error {
	if *listening {
		return nil
	}
	var recovery bool
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_is_in_recovery()").Scan(&recovery); err != nil || recovery {
		return err
	}
	*listening = true
	_, err := conn.Exec(ctx, "LISTEN fence_ddl")
	return err
}

// wait returns true when somebody told of a change, false when it is time to look for oneself.
func (d *Watched) wait(conn *pgx.Conn) (told bool, err error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.watcher.cfg.Every)
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

func (d *Watched) look(conn *pgx.Conn) error {
	asked := d.asked.Load()
	s, err := Read(d.ctx, conn, d.watcher.cfg.Fences)
	if err != nil {
		return err
	}
	defer d.first.Do(func() { close(d.settled) })
	defer d.seen.Store(asked)
	last := d.now.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = nil
	if last != nil && last.digest == s.digest {
		return nil
	}
	s.Generation = 1
	if last != nil {
		s.Generation = last.Generation + 1
	}
	d.now.Store(s)
	close(d.changed)
	d.changed = make(chan struct{})
	return nil
}

// fingerprint is another value after each committed change of the catalogs that Read reads: each row is told by the
// transaction that made it. What PostgreSQL counts for its statistics would cost less, but a backend tells that only when
// it is idle or ends, up to ten seconds late or, while it goes on to work, not at all (pgstat.c pgstat_report_stat).
func fingerprint(ctx context.Context, conn *pgx.Conn) (f string, err error) {
	err = conn.QueryRow(ctx, fingerprintSQL).Scan(&f)
	return f, err
}

var fingerprintSQL = func() string {
	var b strings.Builder
	for i, table := range strings.Fields(`pg_class pg_inherits pg_attribute pg_rewrite pg_constraint pg_trigger pg_proc pg_depend pg_namespace
		pg_policy pg_index pg_attrdef pg_operator pg_cast pg_type`) {
		if i > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT pg_catalog.count(*) AS n, pg_catalog.sum(pg_catalog.hashtext(xmin::pg_catalog.text)) AS h FROM pg_catalog.%s", table)
	}
	return "SELECT pg_catalog.string_agg(n || ' ' || h, ',') FROM (" + b.String() + ") c"
}()
