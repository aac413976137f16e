package main

import (
	"cmp"
	"slices"
	"strings"
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

// keepQuiet is how long what there is of a database outlives its last session: as long as it is watched.
const keepQuiet = 2 * time.Second

// catalogs judge the sessions of one configuration, by database. The Watcher is shared by all configurations with the same
// fences.
type catalogs struct {
	watcher *catalog.Watcher
	config  *config.Config
	base    *rewrite.Analyzer // of the configuration alone
	log     *zap.Logger
	beside  *siblings // of all configurations

	mu        sync.Mutex
	databases map[string]*sessionsIn
	analyzers analyzers // under mu
}

// sessionsIn are the sessions in a database.
type sessionsIn struct {
	of      *catalogs
	watched *catalog.Watched
	users   int           // under catalogs.mu
	quiet   chan struct{} // likewise; closed when there are none left
	gone    bool          // likewise: its analyzer is given back
	made    atomic.Pointer[made]
	making  sync.Mutex
	late    sync.Once
}

// made is the analyzer of a Snapshot.
type made struct {
	from *catalog.Snapshot
	*shared
}

func (p *proxy) newWatcher(c *config.Config) (*catalog.Watcher, error) {
	if c.Mode == config.ModeOff || c.Catalog == config.CatalogOff || len(c.Fences) == 0 {
		return nil, nil
	}
	w, err := catalog.NewWatcher(catalog.WatcherConfig{DSN: c.ControlDSN(), Fences: dbcheck.Fences(c.Fences), Every: c.CatalogInterval,
		Connections: c.CatalogConnections, Log: p.log, Failed: p.metrics.CatalogFailed})
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
	return &catalogs{watcher: w, config: c, base: base, log: p.log, beside: &p.siblings, databases: map[string]*sessionsIn{}, analyzers: newAnalyzers(base)}
}

// Session implements relay.Judges.
func (c *catalogs) Session(name string) relay.Judge { return &judge{of: c, name: name} }

// enter finds the database, or begins to watch it; nil when the proxy ends.
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
		if d != nil {
			c.giveBack(d)
		}
		d = &sessionsIn{of: c, watched: w}
		d.made.Store(&made{shared: c.analyzers.ofNothing})
		c.databases[name] = d
		c.beside.add(d)
	}
	d.users++
	d.quiet = make(chan struct{})
	go d.follow(d.quiet)
	return d
}

func (c *catalogs) leave(d *sessionsIn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	d.watched.Leave()
	left := d.quiet
	close(left)
	time.AfterFunc(keepQuiet, func() { c.forget(d, left) })
}

// forget gives back what there is of a database that nobody has used since.
func (c *catalogs) forget(d *sessionsIn, left chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name := d.watched.Name(); d.quiet == left && c.databases[name] == d {
		delete(c.databases, name)
		c.giveBack(d)
	}
}

// giveBack: the database is another one now, or nobody uses it; under mu. Sessions that are left keep the analyzer.
func (c *catalogs) giveBack(d *sessionsIn) {
	d.gone = true
	c.beside.remove(d)
	c.analyzers.release(d.made.Load().shared)
}

// plans are the counters of all analyzers but the base's.
func (c *catalogs) plans() metrics.Plans {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.analyzers.plans()
}

// follow makes the analyzer of each Snapshot as soon as there is one, so that no session has to, until quiet is closed.
func (d *sessionsIn) follow(quiet <-chan struct{}) {
	for {
		changed := d.watched.Changed()
		d.make()
		select {
		case <-changed:
		case <-quiet:
			return
		case <-d.watched.Done():
			return
		}
	}
}

// settled reports whether the analyzer is that of what is known, and that is all that is to be known now.
func (d *sessionsIn) settled() bool {
	select {
	case <-d.watched.Settled():
		return d.made.Load().from == d.watched.Snapshot()
	default:
		return false
	}
}

// make makes the analyzer of the newest Snapshot, once. That takes a millisecond: not for a goroutine that other sessions
// wait for.
func (d *sessionsIn) make() {
	d.making.Lock()
	defer d.making.Unlock()
	before, now := d.made.Load(), d.watched.Snapshot()
	if before.from == now {
		return
	}
	cfg := d.of.config.Rewrite()
	rows, found := addFound(&cfg, now)
	m := &made{from: now, shared: before.shared}
	switch key := keyOf(cfg.Fences); {
	case !rows && !found:
		m.shared = d.of.analyzers.ofNothing
	case before.key == key: // all that is new is columns: these are asked for one by one
	default:
		if rows {
			cfg.Catalog = &tableColumns{d.watched.Snapshot, d.watched.Current}
		}
		a, err := d.of.analyzer(key, cfg)
		if err != nil { // no name that PostgreSQL has is refused, and the configuration was read before
			d.of.log.Error("cannot use the catalog", zap.String("database", d.watched.Name()), zap.Error(err))
			break
		}
		m.shared = a
	}
	d.of.put(d, m)
	d.report(now)
}

// put has the sessions use m, unless the last one has gone.
func (c *catalogs) put(d *sessionsIn, m *made) {
	c.mu.Lock()
	defer c.mu.Unlock()
	other := m.shared
	if !d.gone {
		other = d.made.Swap(m).shared
	}
	if other != d.made.Load().shared {
		c.analyzers.release(other)
	}
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
		slices.SortFunc(f.Functions, byName)
		rows = rows || cfg.Fences[i].RowToken != ""
		found = found || len(f.Children)+len(f.Views)+len(f.Functions) > 0
	}
	return rows, found
}

func names(list [][2]string) (n []rewrite.Name) {
	for _, name := range list {
		n = append(n, rewrite.Name{Schema: name[0], Name: name[1]})
	}
	slices.SortFunc(n, byName)
	return n
}

// byName: databases that were made in another order have the same analyzer.
func byName(a, b rewrite.Name) int {
	return cmp.Or(strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
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
		t.Types = append(t.Types, column.Type) // with its modifiers, which round and cut
		t.StampedByDefault = t.StampedByDefault || column.Stamped
	}
	return t, true
}
