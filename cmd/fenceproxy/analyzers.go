package main

import (
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/metrics"
	"github.com/fenceproxy/fenceproxy/rewrite"
)

// analyzers are those that databases have beside that of the configuration alone. Databases of which the catalogs tell the
// same, as those of many tenants do, share one, with its plans. With row tokens each has its own, as it asks for columns.
type analyzers struct {
	ofNothing *shared // for what tells nothing: that of the configuration
	byKey     map[string]*shared
	all       map[*shared]bool
	retired   metrics.Plans // counters of those that went
}

// shared is an analyzer and how many databases use it.
type shared struct {
	key      string
	analyzer *rewrite.Analyzer
	users    int
}

func newAnalyzers(base *rewrite.Analyzer) analyzers {
	return analyzers{ofNothing: &shared{analyzer: base}, byKey: map[string]*shared{}, all: map[*shared]bool{}}
}

// few and many: up to these numbers of analyzers, the plan caches of the next one are as large as configured, or an eighth
// of that. Then they are a sixty-fourth.
const few, many = 8, 72

// analyzer is one for cfg, which has the key, for one database more.
func (c *catalogs) analyzer(key string, cfg rewrite.Config) (*shared, error) {
	c.mu.Lock()
	s, n := c.analyzers.use(key, cfg), len(c.analyzers.all)
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	if n >= few {
		cfg.CacheBytes = max(cfg.CacheBytes/8, 64<<10)
	}
	if n >= many {
		cfg.CacheBytes = max(cfg.CacheBytes/8, 64<<10)
	}
	a, err := rewrite.New(cfg)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.analyzers.use(key, cfg); s != nil { // another database was as fast
		return s, nil
	}
	s = &shared{key: key, analyzer: a, users: 1}
	c.analyzers.all[s] = true
	if cfg.Catalog == nil {
		c.analyzers.byKey[key] = s
	}
	return s, nil
}

func (l *analyzers) use(key string, cfg rewrite.Config) *shared {
	s := l.byKey[key]
	if s == nil || cfg.Catalog != nil {
		return nil
	}
	s.users++
	return s
}

// release: a database does not use it any more.
func (l *analyzers) release(s *shared) {
	if s == l.ofNothing {
		return
	}
	if s.users--; s.users > 0 {
		return
	}
	delete(l.all, s)
	if l.byKey[s.key] == s {
		delete(l.byKey, s.key)
	}
	last := plans(s.analyzer.Stats())
	last.Bytes = 0
	l.retired = last.Plus(l.retired)
}

func (l *analyzers) plans() metrics.Plans {
	sum := l.retired
	for s := range l.all {
		p := plans(s.analyzer.Stats())
		bytes := p.Bytes + sum.Bytes
		sum = p.Plus(sum)
		sum.Bytes = bytes
	}
	return sum
}

// keyOf tells what was found for fences apart; all else of a configuration is the same for all databases.
func keyOf(fences []rewrite.Fence) string {
	var b strings.Builder
	text := func(s string) {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	for i := range fences {
		f := &fences[i].Found
		for _, list := range [][]rewrite.Name{f.Children, f.Views, f.Functions} {
			for _, n := range list {
				text(n.Schema)
				text(n.Name)
			}
			b.WriteByte(';')
		}
	}
	return b.String()
}
