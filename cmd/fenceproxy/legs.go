package main

import (
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/verifiers"
	"github.com/fenceproxy/fenceproxy/wire"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// clientTLS is TLS with clients; nil when the configuration offers none.
func clientTLS(c *config.Config) (*relay.ClientTLS, error) {
	if c.TLS.Mode == config.TLSDisable {
		return nil, nil
	}
	source, err := wire.NewTLSSource(c.TLS.Files().Load)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	t := &relay.ClientTLS{Source: source, Require: c.TLS.Mode == config.TLSRequire,
		Unbound: c.TLS.ChannelBinding == config.BindingDisabled}
	switch c.TLS.ClientCert {
	case config.ClientCertVerifyCA:
		t.ClientCert = relay.ClientCertVerifyCA
	case config.ClientCertVerifyFull:
		t.ClientCert = relay.ClientCertVerifyFull
	}
	return t, nil
}

// upstreamLeg is the way to PostgreSQL.
func upstreamLeg(c *config.Config) (relay.Upstream, error) {
	at, err := c.UpstreamAddress()
	if err != nil {
		return relay.Upstream{}, err
	}
	u := relay.Upstream{Network: at.Network, Address: at.Address, Timeout: at.Timeout}
	if at.TLS == config.UpstreamPlain {
		return u, nil
	}
	source, err := wire.NewTLSSource(c.UpstreamSettings)
	if err != nil {
		return u, err
	}
	u.TLS = &relay.UpstreamTLS{Source: source, Direct: at.Direct}
	switch at.TLS {
	case config.UpstreamAllow:
		u.TLS.Wish = relay.TLSAllow
	case config.UpstreamPrefer:
		u.TLS.Wish = relay.TLSPrefer
	default:
		u.TLS.Wish = relay.TLSRequire
	}
	return u, nil
}

// passwords is where verifiers come from; nil when PostgreSQL alone logs clients in.
func passwords(c *config.Config) (*verifiers.Source, error) {
	if c.Auth != config.AuthScram {
		return nil, nil
	}
	v := verifiers.Config{File: c.AuthFile, DSN: c.ControlDSN(), Query: c.AuthQuery, TTL: c.AuthCache}
	if v.File == "" && v.Query == "" {
		v.Query = verifiers.DefaultQuery
	}
	s, err := verifiers.New(v)
	if err != nil {
		return nil, fmt.Errorf("auth scram: %w", err)
	}
	return s, nil
}

// reloadLegs reads the files of both legs again, for connections to come. If any of them cannot be used, nothing changes.
func (p *proxy) reloadLegs() error {
	var failed []error
	var loaded []func()
	reload := func(what string, source *wire.TLSSource) {
		c, err := source.Load()
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", what, err))
			return
		}
		loaded = append(loaded, func() { source.Use(c) })
	}
	if p.verifiers != nil {
		list, err := p.verifiers.Load()
		if err != nil {
			failed = append(failed, fmt.Errorf("auth_file: %w", err))
		}
		loaded = append(loaded, func() { p.verifiers.Use(list) })
	}
	if p.clientTLS != nil {
		reload("certificate for clients", p.clientTLS.Source)
	}
	if p.upstreamTLS != nil {
		reload("TLS to the upstream", p.upstreamTLS.Source)
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	for _, use := range loaded {
		use()
	}
	return nil
}
