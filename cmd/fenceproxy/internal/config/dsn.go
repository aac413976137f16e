package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Upstream is the address that sessions are dialled to.
type Upstream struct {
	Network string        // "tcp" or "unix"
	Address string        // host:port, or the path of the socket
	Timeout time.Duration // connect_timeout of the DSN; 0 when it has none
}

// checkDSN says whether a DSN can be read, never repeating it.
func checkDSN(dsn string) error {
	_, err := pgconn.ParseConfig(dsn)
	return DSNError(err)
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

// parseUpstream finds the address in an upstream DSN. The rest of the DSN is for the control connection.
func parseUpstream(dsn string) (Upstream, error) {
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return Upstream{}, DSNError(err)
	}
	// prefer and allow carry a plain-text alternative; require and verify-* do not. A session must never go in plain
	// text where the DSN demands TLS.
	plain := cfg.TLSConfig == nil
	for _, f := range cfg.Fallbacks {
		plain = plain || f.TLSConfig == nil
		if f.Host != cfg.Host || f.Port != cfg.Port {
			return Upstream{}, errors.New("several hosts in an upstream DSN are not supported: name one")
		}
	}
	if !plain {
		return Upstream{}, errors.New("sslmode demands TLS, but TLS to the upstream is not supported yet; " +
			"sessions would go in plain text: use sslmode=disable or prefer on a network you trust")
	}
	port := strconv.Itoa(int(cfg.Port))
	if strings.HasPrefix(cfg.Host, "/") {
		return Upstream{Network: "unix", Address: filepath.Join(cfg.Host, ".s.PGSQL."+port), Timeout: cfg.ConnectTimeout}, nil
	}
	return Upstream{Network: "tcp", Address: net.JoinHostPort(cfg.Host, port), Timeout: cfg.ConnectTimeout}, nil
}

// UpstreamAddress is the address of the upstream of a configuration that Load accepted.
func (c *Config) UpstreamAddress() (Upstream, error) { return parseUpstream(c.Upstream) }
