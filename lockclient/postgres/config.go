package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// Mode is the kind of lock that is taken.
type Mode string

const (
	Lease    Mode = "lease"    // a row with an expiry
	Advisory Mode = "advisory" // pg_advisory_lock in a session of its own
)

// Config of a backend.
type Config struct {
	DSN  string // as libpq reads it; the role is a member of fence_control
	Mode Mode   // "" is Lease

	// Grace is how long a takeover waits for transactions that were guarded under an older token, until their sessions
	// are ended. 0 means 10 s, negative: never.
	Grace time.Duration

	// Poll is how often a waiter looks when notifications do not reach it, as through a transaction pooler. 0 means 100 ms.
	Poll time.Duration

	Keys KeyForm // of advisory locks; "" is Hash

	// SessionPooler admits a pooler between an advisory lock and the server. It must run in session mode: a transaction
	// pooler is still refused when it shows itself, but it need not.
	SessionPooler bool

	Events tokens.ControlEvents // told of sessions that were ended; may be nil
}

const (
	defaultGrace = 10 * time.Second
	defaultPoll  = 100 * time.Millisecond
	minTTL       = 200 * time.Millisecond
)

// Open connects and checks that the database has the fence schema of this version.
func Open(ctx context.Context, cfg Config) (lockclient.Backend, error) {
	base, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	db := newDatabase(base)
	if err := db.greet(ctx); err != nil {
		soon(db.close)
		return nil, err
	}
	if cfg.Mode == Advisory {
		return newAdvisory(ctx, cfg, db)
	}
	return newLeases(cfg, db), nil
}

// complete fills in defaults and finds what is wrong without connecting.
func (cfg *Config) complete() (*pgxpool.Config, error) {
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	if cfg.Poll <= 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.Mode == "" {
		cfg.Mode = Lease
	}
	if cfg.Keys == "" {
		cfg.Keys = Hash
	}
	if cfg.Mode != Lease && cfg.Mode != Advisory {
		return nil, fmt.Errorf("unknown mode %q: want %s or %s", cfg.Mode, Lease, Advisory)
	}
	if cfg.Keys != Hash && cfg.Keys != Pair {
		return nil, fmt.Errorf("unknown form of keys %q: want %s or %s", cfg.Keys, Hash, Pair)
	}
	base, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		var parse *pgconn.ParseConfigError
		if errors.As(err, &parse) {
			return nil, errors.New("malformed DSN of the lock database") // pgx repeats the DSN, password and all
		}
		return nil, err
	}
	return base, nil
}

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		lockclient.Register(scheme, lockclient.Driver{Options: urlOptions(), Open: openURL, Check: checkURL})
	}
}

var ownOptions = map[string]string{
	"mode":   "lease (default) or advisory",
	"evict":  "how long a takeover waits until it ends sessions of an earlier holder, e.g. 10s, or never",
	"poll":   "how often to look while notifications do not arrive, e.g. 100ms",
	"keys":   "mode=advisory: hash (default; the key is a hash of the name) or pair (the name is two int4, e.g. 7:42)",
	"pooler": "mode=advisory: session, when a pooler in session mode is in between",
}

// libpqOptions are passed on.
var libpqOptions = map[string]string{
	"host": "host or directory of the socket", "port": "port", "user": "role", "password": "password", "dbname": "database",
	"passfile": "password file", "service": "service name", "servicefile": "service file", "application_name": "name in pg_stat_activity",
	"connect_timeout": "seconds", "options": "server options", "target_session_attrs": "which of several hosts to take",
	"sslmode": "TLS mode", "sslrootcert": "TLS certificate authority", "sslcert": "TLS client certificate", "sslkey": "TLS client key",
	"sslpassword": "password of sslkey", "sslsni": "TLS server name indication", "sslnegotiation": "postgres or direct",
	"krbsrvname": "Kerberos service", "krbspn": "Kerberos principal", "channel_binding": "SCRAM channel binding", "require_auth": "ways to authenticate",
}

func urlOptions() map[string]string {
	all := maps.Clone(ownOptions)
	maps.Copy(all, libpqOptions)
	return all
}

func openURL(ctx context.Context, a lockclient.Address) (lockclient.Backend, error) {
	cfg, err := ofURL(a)
	if err != nil {
		return nil, err
	}
	return Open(ctx, cfg)
}

func checkURL(a lockclient.Address) error {
	cfg, err := ofURL(a)
	if err == nil {
		_, err = cfg.complete()
	}
	return err
}

func ofURL(a lockclient.Address) (Config, error) {
	cfg := Config{Mode: Mode(a.Options.Get("mode")), Keys: KeyForm(a.Options.Get("keys"))}
	var err error
	if text := a.Options.Get("evict"); text == "never" {
		cfg.Grace = -1
	} else if text != "" {
		if cfg.Grace, err = positive("evict", text); err != nil {
			return cfg, err
		}
	}
	if text := a.Options.Get("poll"); text != "" {
		if cfg.Poll, err = positive("poll", text); err != nil {
			return cfg, err
		}
	}
	switch text := a.Options.Get("pooler"); text {
	case "session":
		cfg.SessionPooler = true
	case "":
	default:
		return cfg, fmt.Errorf("option pooler: %q, want session", text)
	}
	if cfg.Mode != Advisory && (cfg.Keys != "" || cfg.SessionPooler) {
		return cfg, errors.New("options keys and pooler go with mode=advisory")
	}
	cfg.DSN = dsn(a)
	return cfg, nil
}

func positive(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("it is not positive")
	}
	if err != nil {
		return 0, fmt.Errorf("option %s: %w", name, err)
	}
	return d, nil
}

// dsn is the address in keyword form: in a URL pgx reads one port for all hosts.
func dsn(a lockclient.Address) string {
	settings := map[string]string{}
	var hosts, ports []string
	for _, h := range a.Hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			host, port = strings.Trim(h, "[]"), ""
		}
		if port == "" {
			port = "5432"
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	if a.Hosts[0] != "" {
		settings["host"], settings["port"] = strings.Join(hosts, ","), strings.Join(ports, ",")
	}
	if len(hosts) > 1 {
		settings["target_session_attrs"] = "read-write"
	}
	if a.User != nil {
		settings["user"] = a.User.Username()
		if password, ok := a.User.Password(); ok {
			settings["password"] = password
		}
	}
	if a.Path != "" {
		settings["dbname"] = a.Path
	}
	for name := range libpqOptions {
		if a.Options.Has(name) {
			settings[name] = a.Options.Get(name)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s='%s' ", name, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(settings[name]))
	}
	return b.String()
}

// DSN is the database of a postgres:// URL of package lockclient: the URL without the options that are not libpq's.
func DSN(url string) (string, error) {
	a, err := lockclient.ParseAddress(url)
	switch {
	case err != nil:
		return "", err
	case a.Scheme != "postgres" && a.Scheme != "postgresql":
		return "", fmt.Errorf("%s:// is no database of PostgreSQL", a.Scheme)
	}
	for name := range a.Options {
		if _, ok := libpqOptions[name]; !ok {
			a.Options.Del(name)
		}
	}
	return dsn(a), nil
}
