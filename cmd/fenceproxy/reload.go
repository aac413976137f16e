package main

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/metrics"
)

// loader reads the configuration: at start, and again for a reload.
type loader func() (c *config.Config, warnings []string, err error)

// reloaded says what a reload has done.
type reloaded struct {
	Changed []string `json:"changed"`                 // settings that are new
	Restart []string `json:"restart"`                 // settings that differ and need a new process
	Ending  int      `json:"sessions_ending"`         // sessions of the former configuration, which end with their transaction
	Within  string   `json:"ending_within,omitempty"` // when those are cut off that are left
}

var errDraining = errors.New("the proxy is draining: nothing is reloaded")

// reload reads the configuration again and puts it in force for sessions to come, all of it or nothing. Sessions that were
// begun under other fences end when their transaction does: see mustRetire.
func (p *proxy) reload(why string) (*reloaded, error) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	r, err := p.tryReload()
	if err != nil {
		p.metrics.Reloaded(metrics.ReloadFailed, time.Now())
		p.log.Error("configuration not reloaded: the former one stays in force", zap.String("by", why), zap.Error(err))
		return nil, err
	}
	result := metrics.ReloadApplied
	if len(r.Changed) == 0 {
		result = metrics.ReloadUnchanged
	}
	p.metrics.Reloaded(result, time.Now())
	p.log.Info("configuration reloaded", zap.String("by", why), zap.Strings("changed", r.Changed), zap.Int("sessions_ending", r.Ending))
	if len(r.Restart) > 0 {
		p.log.Warn("settings that differ from those of this process and need a restart", zap.Strings("settings", r.Restart))
	}
	return r, nil
}

// reloadByAdmin is POST /reload.
func (p *proxy) reloadByAdmin() (any, error) { return p.reload("admin listener") }

func (p *proxy) tryReload() (*reloaded, error) {
	if p.draining.Load() {
		return nil, errDraining
	}
	wanted, warnings, err := p.load()
	if err != nil {
		return nil, err
	}
	before := p.current.Load()
	c, changed, restart := merge(before.config, wanted)
	// Sessions in mode observe or off are not judged, and observe changes nothing that a client could notice.
	retire := c.Mode == config.ModeEnforce && mustRetire(before.config, c)
	next, err := p.next(before, c, retire)
	if err != nil {
		return nil, err
	}
	if err := p.reloadLegs(); err != nil {
		return nil, err
	}
	if err := errors.Join(p.decisions.Reopen(), p.decisions.Set(string(c.Decisions), c.DecisionRate)); err != nil {
		return nil, err
	}
	for _, w := range warnings {
		p.log.Warn(w)
	}
	p.metrics.SetFences(c.FenceNames())
	p.current.Store(next)
	p.apply(c)
	p.lookAgain()
	r := &reloaded{Changed: append([]string{}, changed...), Restart: append([]string{}, restart...)}
	if retire {
		r.Ending, r.Within = p.server.Old(), c.DrainTimeout.String()
		p.retirements.Go(func() { p.retire(next) })
		go p.lookAtDatabase(p.running)
	}
	return r, nil
}

// apply is for settings that are no matter of single sessions.
func (p *proxy) apply(c *config.Config) {
	p.server.SetLimits(relayLimits(c))
	p.setLevel(string(c.LogLevel))
}

// retire ends the sessions of the configurations before s, and says when there are none left.
func (p *proxy) retire(s *snapshot) {
	ctx, cancel := context.WithTimeout(p.running, s.config.DrainTimeout)
	defer cancel()
	begin := time.Now()
	cut := p.server.Retire(ctx)
	close(s.inForce)
	p.log.Info("configuration in force: no session of the former one is left", zap.Duration("after", time.Since(begin)), zap.Int("cut_off", cut))
}
