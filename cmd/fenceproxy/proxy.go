package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/admin"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/holding"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/logging"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/metrics"
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// proxy is all that serve runs.
type proxy struct {
	config  *config.Config
	log     *zap.Logger
	metrics *metrics.Metrics
	holder  *holding.Holder // nil unless it holds a lock for its clients
	control *tokens.Control // nil unless the mode is enforce
	server  *relay.Server
	ready   *admin.Readiness
	admin   *admin.Server // nil without an address

	clientTLS   *relay.ClientTLS // nil without TLS, both
	upstreamTLS *relay.UpstreamTLS
}

// assemble makes the parts from the configuration; nothing listens or connects yet. loops: event loops for sessions.
func assemble(c *config.Config, log *zap.Logger, loops int) (*proxy, error) {
	analyzer, err := rewrite.New(c.Rewrite())
	if err != nil {
		return nil, err
	}
	server, err := upstream(c)
	if err != nil {
		return nil, err
	}
	clients, err := clientTLS(c)
	if err != nil {
		return nil, err
	}
	b := thisBuild()
	m := metrics.New(metrics.Build{Version: b.Version, Commit: b.Commit, GoVersion: b.Go, Schema: strconv.Itoa(b.Schema), Mode: string(c.Mode)}, c.FenceNames())
	m.RegisterPlans(func() metrics.Plans { return plans(analyzer.Stats()) })
	p := &proxy{config: c, log: log, metrics: m, clientTLS: clients, upstreamTLS: server.TLS}

	known := new(tokens.Known)
	flood := logging.NewFlood()
	current := sessionConfig(c, analyzer, known)
	sc := relay.ServerConfig{
		Current:          func() *relay.Config { return current },
		Upstream:         server,
		ClientTLS:        clients,
		Recorder:         &recorder{Recorder: m.Recorder, metrics: m, log: log, flood: flood},
		Events:           m,
		Log:              log,
		MaxConnections:   c.Limits.MaxConnections,
		LoginTimeout:     c.Limits.LoginTimeout,
		Loops:            loops,
		AllowReplication: c.Replication == config.ReplicationAllow,
	}
	var ping func(context.Context) error
	if c.Mode == config.ModeEnforce {
		p.control, err = tokens.NewControl(tokens.ControlConfig{
			DSN:     c.ControlDSN(),
			Fences:  c.FenceNames(),
			Bare:    c.BareFence(),
			Grace:   max(c.TakeoverGrace, 1), // 0 would mean the default there
			MaxJump: c.AnnounceMaxJump,
			Roles:   c.AnnounceRoles,
			Known:   known,
			Events:  &takeovers{Metrics: m, log: log, flood: flood},
			Log:     logging.Bounded(log, func() { m.Suppressed(1) }),
		})
		if err != nil {
			return nil, err
		}
		sc.Announcer = p.control
		ping = p.control.Ping
	}
	p.ready = admin.NewReadiness(ping, p.controlChanged)
	if c.Hold.Lock != "" {
		p.standFor(c)
		sc.Holder = p.holder
	}
	if p.server, err = relay.NewServer(sc); err != nil {
		p.close()
		return nil, err
	}
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

// sessionConfig is what sessions run under.
func sessionConfig(c *config.Config, analyzer *rewrite.Analyzer, known *tokens.Known) *relay.Config {
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
		Known:             known,
		Shadow:            &relay.ShadowMarks{},
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
	switch c.OpaqueCall {
	case config.OpaqueCallAllow:
		r.Call = relay.CallAllow
	case config.OpaqueCallReject:
		r.Call = relay.CallReject
	}
	return r
}

// listen opens all addresses, the admin page first: it can say that the rest is not open yet.
func (p *proxy) listen() error {
	b := thisBuild()
	p.log.Info("fenceproxy starts", zap.String("version", b.Version), zap.String("commit", b.Commit), zap.Int("schema", b.Schema),
		zap.String("mode", string(p.config.Mode)), zap.Strings("fences", p.config.FenceNames()),
		zap.String("upstream", config.RedactDSN(p.config.Upstream)), zap.String("control", config.RedactDSN(p.config.ControlDSN())),
		zap.Int("cpus", runtime.GOMAXPROCS(0)))
	if p.config.Admin != "" {
		a, err := admin.Listen(p.config.Admin, p.metrics.Registry, p.ready, p.log, p.pages()...)
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
func (p *proxy) run(ctx context.Context) <-chan error {
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
	go p.lookAround(ctx)
	if p.holder != nil {
		p.holder.Start()
	}
	return failed
}

// drain ends the sessions; a signal meanwhile ends them at once.
func (p *proxy) drain(signals <-chan os.Signal) error {
	p.ready.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), p.config.DrainTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.server.Shutdown(ctx) }()
	if p.holder != nil {
		go p.giveUp(ctx)
	}
	select {
	case err := <-done:
		if err != nil {
			p.log.Warn("drain timeout is over: sessions were cut off")
		}
		p.log.Info("ended")
		return nil
	case s := <-signals:
		p.log.Warn("ending at once", zap.Stringer("signal", s), zap.Int("sessions", p.server.Sessions()))
		cancel()
		p.server.Close()
		return errForced
	}
}

// close frees what is left. The admin page is last, so that a drain can be watched to its end.
func (p *proxy) close() {
	if p.server != nil {
		p.server.Close()
	}
	if p.holder != nil {
		p.holder.Close() // after the sessions: nobody else may begin before they have ended
	}
	if p.control != nil {
		p.control.Close()
	}
	if p.admin != nil {
		p.admin.Close()
	}
	p.log.Sync()
}

// plans turns the analyzer's counters into those that are shown.
func plans(s rewrite.Stats) metrics.Plans {
	return metrics.Plans{
		ExactHits: s.HitsExact, ShapeHits: s.HitsShape, Misses: s.Misses,
		Bytes: s.Bytes, Parses: s.Parses, ParseSeconds: s.ParseSeconds, Unknown: s.Unknown,
	}
}
