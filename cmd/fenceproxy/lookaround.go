package main

import (
	"context"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/dbcheck"
)

const (
	lookLimit = 20 * time.Second
	lookAgain = 5 * time.Second
)

// lookAround warns at start of what would make fencing fail or leak. It waits for a database that is not up yet, and
// never keeps the proxy from starting: PostgreSQL may come later, and a proxy that fails closed is safe.
func (p *proxy) lookAround(ctx context.Context) {
	p.checkDescriptors()
	if p.config.Mode == config.ModeOff {
		p.log.Warn("mode off: nothing is fenced")
		return
	}
	if p.config.Mode == config.ModeObserve {
		p.log.Warn("mode observe: nothing is refused, only counted and logged")
	}
	if p.config.Opaque == config.OpaqueAllow && p.config.Tokenless == config.TokenlessReadWrite {
		p.log.Warn("opaque: allow: functions, DO and CALL may write fenced tables in sessions without a token, and no triggers close that")
	}
	if p.config.AllowRoleToken {
		p.log.Warn("allow_role_token: a token from ALTER ROLE or ALTER DATABASE reaches every session of the role, also a former holder's")
	}
	p.lookAtDatabase(ctx)
}

// lookAtDatabase compares the configuration in force with the database, as soon as it can be asked.
func (p *proxy) lookAtDatabase(ctx context.Context) {
	for first := true; ctx.Err() == nil; first = false {
		findings, err := p.look(ctx)
		if err == nil {
			p.report(findings)
			return
		}
		if first {
			p.log.Warn("cannot check the database yet: the control connection fails", zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

// checkDescriptors: a session takes two, one for each side. The Go runtime has raised the soft limit to the hard one.
func (p *proxy) checkDescriptors() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return
	}
	const others = 100 // listeners, connections for raises, connections that are no session yet
	if need := uint64(2*p.config.Limits.MaxConnections + p.config.CatalogConnections + others); limit.Cur < need {
		p.log.Warn("the limit of open files is too low for limits.max_connections", zap.Uint64("limit", limit.Cur), zap.Uint64("needed", need))
	}
}

func (p *proxy) look(ctx context.Context) ([]dbcheck.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	conn, err := connect(ctx, p.config.ControlDSN())
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return dbcheck.Run(ctx, conn, p.current.Load().config.Fences, conn.Config().User)
}

func (p *proxy) report(findings []dbcheck.Finding) {
	for _, f := range findings {
		if f.Severity == dbcheck.Problem {
			p.log.Warn("the database does not fit the configuration", zap.String("problem", f.Text))
		} else {
			p.log.Info("noticed", zap.String("notice", f.Text))
		}
	}
}
