package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// UpstreamTLS is how much TLS to the upstream is wanted: libpq's sslmode.
type UpstreamTLS uint8

const (
	UpstreamPlain     UpstreamTLS = iota // disable, and any Unix socket
	UpstreamAllow                        // allow
	UpstreamPrefer                       // prefer
	UpstreamEncrypted                    // require, verify-ca, verify-full
)

// Upstream is the address that sessions are dialled to, and how.
type Upstream struct {
	Network string        // "tcp" or "unix"
	Address string        // host:port, or the path of the socket
	Timeout time.Duration // connect_timeout of the DSN; 0 when it has none
	TLS     UpstreamTLS
	Direct  bool // sslnegotiation=direct

	Hosts  []Host // when there are several; Network and Address are those of the first
	Target Target // which of them sessions go to

	settings *tls.Config // nil with UpstreamPlain
}

// Host is one of several servers.
type Host struct {
	Network, Address string
	Name             string // of its certificate

	host string
	port uint16
}

// unsupported are settings of libpq that would change how a connection is secured and that pgx does not know. It would
// hand them to the server as settings of the session.
var unsupported = []string{"gssencmode", "requirepeer", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcrl",
	"sslcrldir", "sslkeylogfile", "hostaddr", "load_balance_hosts"}

// checkDSN says whether a DSN can be read and all of it honoured, never repeating it.
func checkDSN(dsn string) error {
	_, err := parseDSN(dsn)
	return err
}

func parseDSN(dsn string) (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, DSNError(err)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.RuntimeParams)) {
		if slices.Contains(unsupported, name) {
			return nil, fmt.Errorf("%s in a DSN is not supported", name)
		}
	}
	return cfg, nil
}

// DSNError is an error of pgx's parser without the DSN, in which pgx hides the password only as far as it can tell where
// that is.
func DSNError(err error) error {
	if err == nil {
		return nil
	}
	if cause := errors.Unwrap(err); cause != nil {
		return fmt.Errorf("not a DSN: %s", Mask(cause.Error()))
	}
	return errors.New("not a DSN: write postgres://user@host:port/database or host=... port=... user=... dbname=...")
}

// parseUpstream finds the address in an upstream DSN, and how to go there. The rest of the DSN is for the control
// connection. TLS settings are those that pgx makes of the DSN, so that sessions and the control connection agree.
func parseUpstream(dsn string) (Upstream, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return Upstream{}, err
	}
	u := Upstream{Timeout: cfg.ConnectTimeout, Direct: cfg.SSLNegotiation == "direct"}
	// pgx lists the attempts in order: allow is plain text, then TLS; prefer the other way round.
	attempts := []*tls.Config{cfg.TLSConfig}
	for _, f := range cfg.Fallbacks {
		if f.Host == cfg.Host && f.Port == cfg.Port {
			attempts = append(attempts, f.TLSConfig)
		}
	}
	if err := u.addHosts(dsn, cfg); err != nil {
		return Upstream{}, err
	}
	switch first, last := attempts[0], attempts[len(attempts)-1]; {
	case first == nil && last == nil:
		u.TLS = UpstreamPlain
	case first == nil:
		u.TLS, u.settings = UpstreamAllow, last
	case last == nil:
		u.TLS, u.settings = UpstreamPrefer, first
	default:
		u.TLS, u.settings = UpstreamEncrypted, first
	}
	if err := u.addCertificate(dsn, cfg); err != nil {
		return Upstream{}, err
	}
	port := strconv.Itoa(int(cfg.Port))
	if strings.HasPrefix(cfg.Host, "/") {
		u.Network, u.Address, u.Direct = "unix", filepath.Join(cfg.Host, ".s.PGSQL."+port), false
		return u, nil
	}
	if u.Direct && u.TLS != UpstreamEncrypted {
		return Upstream{}, errors.New("sslnegotiation=direct needs sslmode require, verify-ca or verify-full")
	}
	u.Network, u.Address = "tcp", net.JoinHostPort(cfg.Host, port)
	return u, nil
}

// UpstreamAddress is the address of the upstream of a configuration that Load accepted.
func (c *Config) UpstreamAddress() (Upstream, error) { return parseUpstream(c.Upstream) }

// UpstreamSettings are the TLS settings that sessions go to the upstream with, its files read again at each call; nil
// without TLS.
func (c *Config) UpstreamSettings() (*tls.Config, error) {
	u, err := parseUpstream(c.Upstream)
	return u.settings, err
}
