package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Target is libpq's target_session_attrs: which of several servers sessions go to.
type Target string

const (
	TargetAny           Target = "any"
	TargetReadWrite     Target = "read-write"
	TargetReadOnly      Target = "read-only"
	TargetPrimary       Target = "primary"
	TargetStandby       Target = "standby"
	TargetPreferStandby Target = "prefer-standby"
)

// addHosts finds the servers of a DSN that names several, or wants to know what its one server is.
func (u *Upstream) addHosts(dsn string, cfg *pgconn.Config) error {
	all, err := settingsOf(dsn)
	if err != nil {
		return fmt.Errorf("not a DSN: %w", err)
	}
	if u.Target = Target(all["target_session_attrs"]); u.Target == "" {
		u.Target = TargetAny
	}
	type place struct {
		host string
		port uint16
	}
	places := []place{{cfg.Host, cfg.Port}}
	for _, f := range cfg.Fallbacks {
		if p := (place{f.Host, f.Port}); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	if len(places) == 1 && u.Target == TargetAny {
		return nil
	}
	for _, p := range places {
		port := strconv.Itoa(int(p.port))
		h := Host{Network: "tcp", Address: net.JoinHostPort(p.host, port), Name: p.host}
		if strings.HasPrefix(p.host, "/") {
			h = Host{Network: "unix", Address: filepath.Join(p.host, ".s.PGSQL."+port)}
			if u.TLS != UpstreamPlain || cfg.TLSConfig != nil {
				return errors.New("Unix sockets and TLS do not go together when there are several hosts: use sslmode=disable")
			}
		}
		h.host, h.port = p.host, p.port
		u.Hosts = append(u.Hosts, h)
	}
	return nil
}

// HostConfig is for a connection to one of the upstream's hosts, with the credentials of the control DSN.
func (c *Config) HostConfig(h Host) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(c.Upstream)
	if err != nil {
		return nil, DSNError(err)
	}
	if c.Control != "" {
		control, err := pgx.ParseConfig(c.Control)
		if err != nil {
			return nil, DSNError(err)
		}
		cfg.User, cfg.Password, cfg.Database = control.User, control.Password, control.Database
	}
	ways := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
	ways = slices.DeleteFunc(ways, func(f *pgconn.FallbackConfig) bool { return f.Host != h.host || f.Port != h.port })
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = h.host, h.port, ways[0].TLSConfig, ways[1:]
	cfg.ValidateConnect = nil // any server may answer
	cfg.RuntimeParams["application_name"] = "fenceproxy"
	return cfg, nil
}
