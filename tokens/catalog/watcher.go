package catalog

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// WatcherConfig says what to watch.
type WatcherConfig struct {
	DSN         string        // its database is replaced by each one that is watched
	Fences      []Fence       //
	Every       time.Duration // between two looks when nobody tells of a change; 0 means 10 s, at least 100 ms
	Connections int           // that are kept at a time, one for a database; 0 means 100
	Log         *zap.Logger   // may be nil
	Failed      func()        // called for each look that failed; may be nil
}

// Watcher keeps a Snapshot for each database that it is asked for. Safe for concurrent use.
//
// How old a Snapshot can be: where the event triggers of package triggers are installed, a change is read within
// milliseconds of its commit (LISTEN fence_ddl). Elsewhere a look each Every compares a fingerprint of the catalogs, which
// costs a tenth of reading them, and reads everything when that is another one, and every tenth time in any case. While the
// database cannot be reached the last Snapshot stays, but is not Current: that is noticed within Every, at most 10 s, and answerTime.
//
// It keeps a connection to as many databases as the configuration allows. Beyond those, a database gets one for each look,
// and is told by no event trigger.
type Watcher struct {
	cfg     WatcherConfig
	base    *pgx.ConnConfig
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup
	kept    chan struct{} // holds one for each connection that is kept
	looking chan struct{} // and one for each look: they share the server's and our processors with sessions
	beat    time.Duration
	answer  time.Duration

	mu   sync.Mutex
	dbs  map[string]*Watched
	full sync.Once // of the log line that says so
}

const (
	keptByDefault = 100
	looksAtATime  = 8
)

// NewWatcher checks the configuration; it connects when it is first asked for a database.
func NewWatcher(cfg WatcherConfig) (*Watcher, error) {
	base, err := tokens.ControlConnConfig(cfg.DSN)
	if err != nil {
		return nil, err
	}
	base.RuntimeParams["application_name"] = "fenceproxy catalog"
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Second
	}
	cfg.Every = max(cfg.Every, 100*time.Millisecond)
	if cfg.Connections <= 0 {
		cfg.Connections = keptByDefault
	}
	if cfg.Failed == nil {
		cfg.Failed = func() {}
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	w := &Watcher{cfg: cfg, base: base, dbs: map[string]*Watched{}, kept: make(chan struct{}, cfg.Connections), looking: make(chan struct{}, looksAtATime),
		beat: beat, answer: answerTime}
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

// linger is how long a database is watched that nobody asks for any more. DROP DATABASE waits 5 s for other sessions to
// end (procarray.c CountOtherDBBackends).
const linger = 2 * time.Second

// Database returns what is known of a database, and begins to watch it. Watched.Leave must follow. nil after Close.
func (w *Watcher) Database(name string) *Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.dbs[name]
	if d == nil {
		if w.ctx.Err() != nil {
			return nil
		}
		d = &Watched{name: name, watcher: w, again: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
			changed: make(chan struct{}), settled: make(chan struct{}), looked: make(chan struct{})}
		d.ctx, d.cancel = context.WithCancel(w.ctx)
		w.dbs[name] = d
		w.work.Go(d.run)
	} else if d.doubtful() {
		d.unsettle()
		d.Reload()
	}
	d.users++
	return d
}

// Databases are those that are watched, by name.
func (w *Watcher) Databases() []*Watched {
	w.mu.Lock()
	list := make([]*Watched, 0, len(w.dbs))
	for _, d := range w.dbs {
		list = append(list, d)
	}
	w.mu.Unlock()
	slices.SortFunc(list, func(a, b *Watched) int { return strings.Compare(a.name, b.name) })
	return list
}

// saysFull: a database is looked at without a connection of its own.
func (w *Watcher) saysFull(database string) {
	w.full.Do(func() {
		w.cfg.Log.Warn("more databases than connections for their catalogs: the others are looked at in turns",
			zap.Int("connections", w.cfg.Connections), zap.String("database", database), zap.Duration("every", w.cfg.Every))
	})
}
