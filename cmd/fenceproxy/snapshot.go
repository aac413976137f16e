package main

import (
	"context"
	"reflect"
	"slices"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/metrics"
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/tokens/catalog"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// snapshot is a configuration in force and what was made of it. A reload puts another one in its place, as a whole.
type snapshot struct {
	config   *config.Config
	analyzer *rewrite.Analyzer
	session  *relay.Config // of sessions that begin now
	catalogs *catalogs     // nil when none are read
	fresh    map[string]bool
	inForce  chan struct{} // closed when no session of a lower generation is left
	retired  metrics.Plans // counters of the analyzers of before
}

// first is the snapshot that a process begins with.
func (p *proxy) first(c *config.Config) (*snapshot, error) {
	analyzer, err := rewrite.New(c.Rewrite())
	if err != nil {
		return nil, err
	}
	s := &snapshot{config: c, analyzer: analyzer, inForce: make(chan struct{})}
	close(s.inForce)
	watcher, err := p.newWatcher(c)
	if err != nil {
		return nil, err
	}
	s.catalogs = p.newCatalogs(watcher, c, analyzer)
	s.session = s.sessionConfig()
	s.session.Known, s.session.Shadow = &p.known, &relay.ShadowMarks{}
	return s, p.addAnnouncer(s)
}

// next is the snapshot of c behind s. retire: it gets a generation of its own, because sessions of s must end.
func (p *proxy) next(s *snapshot, c *config.Config, retire bool) (*snapshot, error) {
	n := &snapshot{config: c, analyzer: s.analyzer, catalogs: s.catalogs, inForce: s.inForce, fresh: s.fresh, retired: s.retired}
	if !reflect.DeepEqual(c.Rewrite(), s.config.Rewrite()) {
		analyzer, err := rewrite.New(c.Rewrite())
		if err != nil {
			return nil, err
		}
		n.analyzer, n.retired = analyzer, s.plans()
		var watcher *catalog.Watcher
		if s.catalogs != nil && reflect.DeepEqual(c.Fences, s.config.Fences) {
			watcher = s.catalogs.watcher
		} else if watcher, err = p.newWatcher(c); err != nil {
			return nil, err
		}
		n.catalogs = p.newCatalogs(watcher, c, n.analyzer)
	}
	n.session = n.sessionConfig()
	n.session.Known, n.session.Shadow, n.session.Generation = s.session.Known, s.session.Shadow, s.session.Generation
	if retire {
		n.session.Generation++
		n.inForce = make(chan struct{})
		n.fresh = freshFences(s.config, c)
		select {
		case <-s.inForce:
		default:
			for name := range s.fresh { // what the reload before has added is not in force either
				n.fresh[name] = true
			}
		}
	}
	return n, p.addAnnouncer(n)
}

// freshFences are the fences of b that fence a table which they did not fence in a, or fence it otherwise.
func freshFences(a, b *config.Config) map[string]bool {
	before := map[string]config.Fence{}
	for _, f := range a.Fences {
		before[f.Name] = f
	}
	fresh := map[string]bool{}
	for _, f := range b.Fences {
		old := before[f.Name]
		if f.RowToken != old.RowToken || f.OnStale != old.OnStale || f.Scope != old.Scope {
			fresh[f.Name] = true
		}
		for _, t := range f.Tables {
			if !slices.Contains(old.Tables, t) {
				fresh[f.Name] = true
			}
		}
	}
	return fresh
}

func (p *proxy) addAnnouncer(s *snapshot) error {
	if p.control == nil {
		return nil
	}
	c := s.config
	a, err := p.control.Under(tokens.Policy{Fences: c.FenceNames(), Bare: c.BareFence(), Grace: max(c.TakeoverGrace, 1), // 0 would mean the default there
		MaxJump: c.AnnounceMaxJump, Roles: c.AnnounceRoles})
	s.session.Announcer = &announcer{Announcer: a, bare: c.BareFence(), fresh: s.fresh, inForce: s.inForce}
	return err
}

// announcer holds back the tokens of fences that a reload has added, or added tables to, until they are in force: a
// session of the former configuration may be about to commit what it wrote to these tables without a guard. So a takeover
// of such a fence waits for those sessions as it waits for guarded ones.
type announcer struct {
	*tokens.Announcer
	bare    string
	fresh   map[string]bool
	inForce <-chan struct{}
}

func (a *announcer) Announce(ctx context.Context, s tokens.Session, l tokens.List) ([]tokens.Mark, *tokens.Error) {
	for _, item := range l {
		fence := item.Fence
		if fence == "" {
			fence = a.bare
		}
		if !a.isFresh(fence) {
			continue
		}
		select {
		case <-a.inForce:
		case <-ctx.Done():
			return nil, &tokens.Error{Code: tokens.CodeUnavailable, Fence: fence, Message: "the configuration of the fence is not in force yet",
				Hint: "Try again: sessions of the former configuration are ending."}
		}
	}
	return a.Announcer.Announce(ctx, s, l)
}

func (a *announcer) isFresh(name string) bool {
	for fence := range a.fresh {
		if tokens.Matches(fence, name) {
			return true
		}
	}
	return false
}

// plans are the counters of all analyzers that there are and were.
func (s *snapshot) plans() metrics.Plans {
	sum := plans(s.analyzer.Stats()).Plus(s.retired)
	if s.catalogs != nil {
		more := s.catalogs.plans()
		bytes := sum.Bytes + more.Bytes
		sum = sum.Plus(more)
		sum.Bytes = bytes
	}
	return sum
}

// sessionConfig is what sessions run under.
func (s *snapshot) sessionConfig() *relay.Config {
	c, analyzer := s.config, s.analyzer
	r := &relay.Config{
		Mode:              relay.ModeEnforce,
		Analyzer:          analyzer,
		Fences:            c.FenceNames(),
		Bare:              c.BareFence(),
		Opaque:            relay.OpaqueAllow,
		Call:              relay.CallGuard,
		FunctionCalls:     functionCalls(c.FunctionCalls),
		AllowRoleToken:    c.AllowRoleToken,
		MaxStatementBytes: int(c.Limits.MaxStatementBytes),
		Idle:              relay.IdleLimits{Outside: c.Limits.IdleTimeout, Inside: c.Limits.IdleInTransaction},
	}
	if s.catalogs != nil {
		r.Judges = s.catalogs
	}
	switch c.Mode {
	case config.ModeObserve:
		r.Mode = relay.ModeObserve
	case config.ModeOff:
		r.Mode = relay.ModeOff
	}
	if c.Opaque == config.OpaqueReject {
		r.Opaque = relay.OpaqueReject
	}
	switch c.Tokenless {
	case config.TokenlessOpaqueReadOnly:
		r.Tokenless = relay.TokenlessOpaqueReadOnly
	case config.TokenlessReadOnly:
		r.Tokenless = relay.TokenlessReadOnly
	}
	switch c.OpaqueCall {
	case config.OpaqueCallAllow:
		r.Call = relay.CallAllow
	case config.OpaqueCallReject:
		r.Call = relay.CallReject
	}
	return r
}

func relayLimits(c *config.Config) relay.Limits {
	return relay.Limits{MaxConnections: c.Limits.MaxConnections, LoginTimeout: c.Limits.LoginTimeout,
		AllowReplication: c.Replication == config.ReplicationAllow}
}
