package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/admin"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/holding"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/logging"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/metrics"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/upstream"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/verifiers"
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/tokens/catalog"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// proxy is all that serve runs.
type proxy struct {
	config   *config.Config // at the start; what can change is in current
	current  atomic.Pointer[snapshot]
	load     loader
	log      *zap.Logger
	setLevel func(string) error

	decisions *logging.Decisions
	metrics   *metrics.Metrics
	holder    *holding.Holder // nil unless it holds a lock for its clients
	control   *tokens.Control // nil unless the mode is enforce
	known     tokens.Known
	chooser   *upstream.Chooser // nil with a single upstream
	server    *relay.Server
	ready     *admin.Readiness
	admin     *admin.Server // nil without an address

	clientTLS   *relay.ClientTLS // nil without TLS, both
	upstreamTLS *relay.UpstreamTLS
	verifiers   *verifiers.Source // nil unless the proxy logs clients in

	running     context.Context // until the proxy is closed
	stop        context.CancelFunc
	reloading   sync.Mutex
	watchers    []*catalog.Watcher // of all catalogs; under reloading once the proxy runs
	siblings    siblings
	retirements sync.WaitGroup
	draining    atomic.Bool
}

// assemble makes the parts from the configuration; nothing listens or connects yet. loops: event loops for sessions.
func assemble(c *config.Config, load loader, log *logging.Logger, loops int) (*proxy, error) {
	server, err := upstreamLeg(c)
	if err != nil {
		return nil, err
	}
	chooser, err := upstream.New(c, log.Logger)
	if err != nil {
		return nil, err
	}
	if chooser != nil {
		server.Hosts = chooser.Hosts()
	}
	clients, err := clientTLS(c)
	if err != nil {
		return nil, err
	}
	source, err := passwords(c)
	if err != nil {
		return nil, err
	}
	b := thisBuild()
	m := metrics.New(metrics.Build{Version: b.Version, Commit: b.Commit, GoVersion: b.Go, Schema: strconv.Itoa(b.Schema), Mode: string(c.Mode)}, c.FenceNames())
	p := &proxy{config: c, load: load, log: log.Logger, setLevel: log.SetLevel, metrics: m, clientTLS: clients, upstreamTLS: server.TLS}
	p.chooser, p.verifiers = chooser, source
	p.running, p.stop = context.WithCancel(context.Background())
	p.decisions = logging.NewDecisions(c.DecisionFile, log.Out, m.DecisionDropped)
	if err := p.decisions.Set(string(c.Decisions), c.DecisionRate); err != nil {
		p.close()
		return nil, err
	}
	flood := logging.NewFlood()
	var ping func(context.Context) error
	if c.Mode == config.ModeEnforce {
		p.control, err = tokens.NewControl(tokens.ControlConfig{
			DSN:    c.ControlDSN(),
			Known:  &p.known,
			Events: &takeovers{Metrics: m, log: p.log, flood: flood},
			Log:    logging.Bounded(p.log, func() { m.Suppressed(1) }),
		})
		if err != nil {
			return nil, err
		}
		ping = p.control.Ping
	}
	first, err := p.first(c)
	if err != nil {
		p.close()
		return nil, err
	}
	p.current.Store(first)
	m.RegisterPlans(func() metrics.Plans {
		return p.current.Load().plans()
	})
	m.RegisterCatalogs(p.databases)
	p.ready = admin.NewReadiness(ping, p.controlChanged)
	sc := relay.ServerConfig{
		Current:   func() *relay.Config { return p.current.Load().session },
		Upstream:  server,
		ClientTLS: clients,
		Recorder:  &recorder{Recorder: m.Recorder, metrics: m, log: p.log, flood: flood, decisions: p.decisions},
		Events:    m,
		Log:       p.log,
		Limits:    relayLimits(c),
		ReusePort: c.ListenReuseport,
		Loops:     loops,
	}
	if source != nil {
		sc.Verifiers = source
	}
	if c.Hold.Lock != "" {
		if err := p.standFor(c); err != nil {
			p.close()
			return nil, err
		}
		sc.Holder = p.holder
	}
	if p.server, err = relay.NewServer(sc); err != nil {
		p.close()
		return nil, err
	}
	m.RegisterOldSessions(p.server.Old)
	return p, nil
}

// controlChanged says in the log what /readyz must not: its readers are not always ours.
func (p *proxy) controlChanged(err error) {
	if err == nil {
		p.log.Info("the control connection works again")
		return
	}
	p.log.Warn("not ready: the control connection fails", zap.Error(err))
}

// listen opens all addresses, the admin page first: it can say that the rest is not open yet.
func (p *proxy) listen() error {
	b := thisBuild()
	p.log.Info("fenceproxy starts", zap.String("version", b.Version), zap.String("commit", b.Commit), zap.Int("schema", b.Schema),
		zap.String("mode", string(p.config.Mode)), zap.Strings("fences", p.config.FenceNames()),
		zap.String("upstream", config.RedactDSN(p.config.Upstream)), zap.String("control", config.RedactDSN(p.config.ControlDSN())),
		zap.Int("cpus", runtime.GOMAXPROCS(0)))
	if p.config.Admin != "" {
		a, err := admin.Listen(p.config.Admin, p.config.ListenReuseport, p.metrics.Registry, p.ready, p.log, p.pages()...)
		if err != nil {
			return fmt.Errorf("admin listener: %w", err)
		}
		p.admin = a
		p.log.Info("admin listener open", zap.Stringer("address", a.Addr()))
	}
	for _, l := range p.config.Listen {
		address, err := p.server.Listen(l.Address, l.Pooled)
		if err != nil {
			return fmt.Errorf("listener: %w", err)
		}
		p.log.Info("listening", zap.Stringer("address", address), zap.Bool("pooled", l.Pooled))
	}
	p.ready.Listening()
	return nil
}

// run starts everything; the channel tells of a part that failed.
func (p *proxy) run() <-chan error {
	failed := make(chan error, 2)
	go func() {
		if err := p.server.Serve(); err != nil {
			failed <- err
		}
	}()
	if p.admin != nil {
		go func() {
			if err := p.admin.Serve(); err != nil {
				failed <- fmt.Errorf("admin listener: %w", err)
			}
		}()
	}
	go p.lookAround(p.running)
	if p.holder != nil {
		p.holder.Start()
	}
	return failed
}

// close frees what is left. The admin page is last, so that a drain can be watched to its end.
func (p *proxy) close() {
	p.stop()
	if p.server != nil {
		p.server.Close()
	}
	if p.holder != nil {
		p.holder.Close() // after the sessions: nobody else may begin before they have ended
	}
	p.retirements.Wait()
	for _, w := range p.watchers {
		w.Close()
	}
	if p.control != nil {
		p.control.Close()
	}
	if p.admin != nil {
		p.admin.Close()
	}
	if p.chooser != nil {
		p.chooser.Close()
	}
	if p.verifiers != nil {
		p.verifiers.Close()
	}
	p.decisions.Close()
	p.log.Sync()
}

// plans turns the analyzer's counters into those that are shown.
func plans(s rewrite.Stats) metrics.Plans {
	return metrics.Plans{
		ExactHits: s.HitsExact, ShapeHits: s.HitsShape, Misses: s.Misses,
		Bytes: s.Bytes, Parses: s.Parses, ParseSeconds: s.ParseSeconds, Unknown: s.Unknown,
	}
}
