package main

import (
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/dbcheck"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/metrics"
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens/catalog"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// settleTime is how long a database's first session waits for the catalog. It goes on without: what the catalog tells is a
// hint, and triggers hold what no hint tells of.
const settleTime = 2 * time.Second

// manyDatabases: the analyzers of more databases than these have smaller caches.
const manyDatabases = 8

// catalogs judge the sessions of one configuration, by database. The Watcher is shared by all configurations with the same
// fences.
type catalogs struct {
	watcher *catalog.Watcher
	config  *config.Config
	base    *rewrite.Analyzer // of the configuration alone
	log     *zap.Logger

	mu        sync.Mutex
	databases map[string]*sessionsIn
	retired   metrics.Plans
}

// sessionsIn are the sessions in a database.
type sessionsIn struct {
	of      *catalogs
	watched *catalog.Watched
	users   int // under catalogs.mu
	made    atomic.Pointer[made]
	making  sync.Mutex
	late    sync.Once
}

// made is the analyzer of a Snapshot.
type made struct {
	from     *catalog.Snapshot
	fences   []rewrite.Fence
	analyzer *rewrite.Analyzer
}

func (p *proxy) newWatcher(c *config.Config) (*catalog.Watcher, error) {
	if c.Mode == config.ModeOff || c.Catalog == config.CatalogOff || len(c.Fences) == 0 {
		return nil, nil
	}
	w, err := catalog.NewWatcher(catalog.WatcherConfig{DSN: c.ControlDSN(), Fences: dbcheck.Fences(c.Fences), Every: c.CatalogInterval, Log: p.log,
		Failed: p.metrics.CatalogFailed})
	if err == nil {
		p.watchers = append(p.watchers, w)
	}
	return w, err
}

// databases are those of the configuration in force that are watched.
func (p *proxy) databases() []*catalog.Watched {
	if c := p.current.Load().catalogs; c != nil {
		return c.watcher.Databases()
	}
	return nil
}

// lookAgain has all catalogs read again.
func (p *proxy) lookAgain() {
	for _, d := range p.databases() {
		d.Reload()
	}
}

func (p *proxy) newCatalogs(w *catalog.Watcher, c *config.Config, base *rewrite.Analyzer) *catalogs {
	if w == nil {
		return nil
	}
	return &catalogs{watcher: w, config: c, base: base, log: p.log, databases: map[string]*sessionsIn{}}
}

// Session implements relay.Judges.
func (c *catalogs) Session(name string) relay.Judge { return &judge{of: c, name: name} }

// enter finds the database, or begins to watch it; nil when there are too many.
func (c *catalogs) enter(name string) *sessionsIn {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.databases[name]
	if d != nil && d.users > 0 && !d.watched.Ended() {
		d.users++
		return d
	}
	w := c.watcher.Database(name)
	if w == nil {
		return nil
	}
	if d == nil || d.watched != w {
		c.sweep()
		d = &sessionsIn{of: c, watched: w}
		d.made.Store(&made{analyzer: c.base})
		c.databases[name] = d
	}
	d.users++
	return d
}

// sweep forgets databases that are not watched any more; under mu.
func (c *catalogs) sweep() {
	for name, d := range c.databases {
		if d.watched.Ended() {
			c.keep(d.made.Load().analyzer)
			delete(c.databases, name)
		}
	}
}

// keep keeps the counters of an analyzer that goes; under mu.
func (c *catalogs) keep(a *rewrite.Analyzer) {
	if a == c.base {
		return
	}
	s := plans(a.Stats())
	s.Bytes = 0
	c.retired = s.Plus(c.retired)
}

func (c *catalogs) leave(d *sessionsIn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.users--; d.users == 0 {
		d.watched.Leave()
	}
}

// plans are the counters of all analyzers but the base's.
func (c *catalogs) plans() metrics.Plans {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.retired
	for _, d := range c.databases {
		if a := d.made.Load().analyzer; a != c.base {
			s := plans(a.Stats())
			bytes := s.Bytes + sum.Bytes
			sum = s.Plus(sum)
			sum.Bytes = bytes
		}
	}
	return sum
}

// analyzer is that of the newest Snapshot.
func (d *sessionsIn) analyzer() *rewrite.Analyzer {
	now := d.watched.Snapshot()
	if m := d.made.Load(); m.from == now {
		return m.analyzer
	}
	return d.make(now)
}

// make is called once for a Snapshot. Its analyzer is the one before if all that is new is columns: these are asked for
// one by one.
func (d *sessionsIn) make(now *catalog.Snapshot) *rewrite.Analyzer {
	d.making.Lock()
	defer d.making.Unlock()
	before := d.made.Load()
	if before.from == now {
		return before.analyzer
	}
	cfg := d.of.config.Rewrite()
	rows, found := addFound(&cfg, now)
	m := &made{from: now, fences: cfg.Fences, analyzer: before.analyzer}
	switch {
	case !rows && !found:
		m.analyzer = d.of.base
	case before.from == nil || before.analyzer == d.of.base || !reflect.DeepEqual(before.fences, cfg.Fences):
		if rows {
			cfg.Catalog = &tableColumns{d.watched.Snapshot, d.watched.Current}
		}
		if len(d.of.watcher.Databases()) > manyDatabases {
			cfg.CacheBytes = max(cfg.CacheBytes/8, 64<<10)
		}
		a, err := rewrite.New(cfg)
		if err != nil { // no name that PostgreSQL has is refused, and the configuration was read before
			d.of.log.Error("cannot use the catalog", zap.String("database", d.watched.Name()), zap.Error(err))
			a = before.analyzer
		}
		m.analyzer = a
	}
	d.of.mu.Lock()
	if before.analyzer != m.analyzer {
		d.of.keep(before.analyzer)
	}
	d.made.Store(m)
	d.of.mu.Unlock()
	d.report(now)
	return m.analyzer
}

// addFound adds to the fences what the catalog tells of them: whether any has row tokens, and whether anything was found.
func addFound(cfg *rewrite.Config, s *catalog.Snapshot) (rows, found bool) {
	for i := range cfg.Fences {
		f := &cfg.Fences[i].Found
		v := &s.Fences[i]
		f.Children, f.Views = names(v.Children()), names(v.Views())
		for _, fn := range v.Functions {
			f.Functions = append(f.Functions, rewrite.Name{Schema: fn.Schema, Name: fn.Name})
		}
		rows = rows || cfg.Fences[i].RowToken != ""
		found = found || len(f.Children)+len(f.Views)+len(f.Functions) > 0
	}
	return rows, found
}

func names(list [][2]string) (n []rewrite.Name) {
	for _, name := range list {
		n = append(n, rewrite.Name{Schema: name[0], Name: name[1]})
	}
	return n
}

// report says what was found, so that a write that is refused for it surprises nobody.
func (d *sessionsIn) report(s *catalog.Snapshot) {
	for i := range s.Fences {
		v := &s.Fences[i]
		children, views := v.Children(), v.Views()
		if len(children)+len(views)+len(v.Functions) == 0 {
			continue
		}
		d.of.log.Info("catalog read: more writes to the fence are known", zap.String("database", s.Database), zap.Uint64("generation", s.Generation),
			zap.String("fence", v.Fence), zap.Int("children", len(children)), zap.Int("views", len(views)), zap.Int("functions", len(v.Functions)))
	}
}

// tableColumns answers for the newest Snapshot, and for none that DDL may have outrun.
type tableColumns struct {
	snapshot func() *catalog.Snapshot
	current  func() bool
}

// Generation implements rewrite.Catalog.
func (c *tableColumns) Generation() uint64 {
	g := c.snapshot().Generation * 2
	if !c.current() {
		g++
	}
	return g
}

// Table implements rewrite.Catalog.
func (c *tableColumns) Table(schema, name string) (t rewrite.Table, ok bool) {
	list := c.snapshot().Columns(schema, name)
	if list == nil {
		return t, false
	}
	if !c.current() {
		return t, true
	}
	for _, column := range list {
		t.Columns = append(t.Columns, column.Name)
		t.Types = append(t.Types, column.Base)
		t.StampedByDefault = t.StampedByDefault || column.Stamped
	}
	return t, true
}
