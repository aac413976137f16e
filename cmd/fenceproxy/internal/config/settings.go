package config

import (
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// kind is what a setting's value looks like in the file.
type kind uint8

const (
	kindText kind = iota
	kindDuration
	kindInteger
	kindSize
	kindBool
	kindTexts     // list of texts
	kindListeners // list of texts or {address, pooled}
	kindFences    // list of {name, tables, ...}
	kindFunctions // list of texts or whole numbers
)

// setting is one value of the configuration and all the ways to set it. One table keeps file, environment, flags and
// their documentation together.
type setting struct {
	key   string // path in the file; the environment variable is FENCEPROXY_ and the path in capitals with _ for .
	flag  string // "" for none
	usage string
	kind  kind
	set   func(*Config, string) error // assigns, or appends for a list
	reset func(*Config)               // lists: empties it, before the first set of a higher precedence
}

func (s *setting) env() string {
	return "FENCEPROXY_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

func (s *setting) list() bool { return s.reset != nil }

var settings = []setting{
	{key: "listen", flag: "listen", kind: kindListeners, usage: "address to accept clients on: host:port or the path of a Unix socket; repeatable",
		set:   func(c *Config, v string) error { return addListener(c, v, false) },
		reset: func(c *Config) { c.Listen = nil }},
	{key: "tls.mode", flag: "tls-mode", usage: "TLS for clients: disable, allow or require",
		set: func(c *Config, v string) error { return setWord(&c.TLS.Mode, "mode", tlsModes, v) }},
	{key: "tls.cert", flag: "tls-cert", usage: "certificate for clients, in PEM",
		set: func(c *Config, v string) error { c.TLS.Cert = v; return nil }},
	{key: "tls.key", flag: "tls-key", usage: "its private key, in PEM",
		set: func(c *Config, v string) error { c.TLS.Key = v; return nil }},
	{key: "tls.client_ca", flag: "tls-client-ca", usage: "authorities that sign the certificates of clients, in PEM",
		set: func(c *Config, v string) error { c.TLS.ClientCA = v; return nil }},
	{key: "tls.client_cert", flag: "tls-client-cert", usage: "certificate that a client must have: none, verify-ca or verify-full",
		set: func(c *Config, v string) error { return setWord(&c.TLS.ClientCert, "kind", clientCerts, v) }},
	{key: "tls.channel_binding", flag: "tls-channel-binding", usage: "how logins work with TLS to clients and to PostgreSQL: same-certificate or disabled",
		set: func(c *Config, v string) error { return setWord(&c.TLS.ChannelBinding, "way", bindings, v) }},
	{key: "auth", flag: "auth", usage: "logins: relay leaves them to PostgreSQL, scram takes passwords' proofs itself",
		set: func(c *Config, v string) error { return setWord(&c.Auth, "way", auths, v) }},
	{key: "auth_query", flag: "auth-query", usage: "with --auth scram: query for the verifier of the user $1",
		set: func(c *Config, v string) error { c.AuthQuery = v; return nil }},
	{key: "auth_file", flag: "auth-file", usage: "with --auth scram: users and their verifiers, as pgbouncer's userlist.txt",
		set: func(c *Config, v string) error { return setPath(&c.AuthFile, v) }},
	{key: "auth_cache", kind: kindDuration, usage: "how long an answer of auth_query is remembered",
		set: func(c *Config, v string) error { return setDuration(&c.AuthCache, v, 0, 5*time.Minute) }},
	{key: "listen_reuseport", flag: "listen-reuseport", kind: kindBool, usage: "let several processes listen on the same addresses: a new one takes over without a refused connection",
		set: func(c *Config, v string) error { return setBool(&c.ListenReuseport, v) }},
	{key: "upstream", flag: "upstream", usage: "DSN of the PostgreSQL server that sessions are relayed to",
		set: func(c *Config, v string) error { _, err := parseUpstream(v); c.Upstream = v; return err }},
	{key: "control", flag: "control", usage: "DSN with the credentials that raise marks and evict (default: the upstream DSN)",
		set: func(c *Config, v string) error { c.Control = v; return checkDSN(v) }},
	{key: "admin", flag: "admin", usage: "address of the admin listener: /metrics, /livez, /readyz (default: none)",
		set: func(c *Config, v string) error { c.Admin = v; return checkAddress(v) }},
	{key: "mode", flag: "mode", usage: "enforce, observe or off",
		set: func(c *Config, v string) error { return setWord(&c.Mode, "mode", modes, v) }},
	{key: "fences", flag: "fence", kind: kindFences, usage: "a fence and the tables whose writes need its token; repeatable",
		set: addFence, reset: func(c *Config) { c.Fences = nil }},
	{key: "hold.lock", flag: "hold", usage: "hold the lock of this name for all clients, and with it the fence of the same name",
		set: func(c *Config, v string) error { c.Hold.Lock = v; return nil }},
	{key: "hold.backend", flag: "backend", usage: "URL of the lock service for --hold, e.g. etcd://host:2379 (default: $FENCEPROXY_BACKEND)",
		set: func(c *Config, v string) error { c.Hold.Backend = v; _, err := lockclient.ParseAddress(v); return err }},
	{key: "hold.when_not_held", flag: "when-not-held", usage: "clients while another instance holds the lock: wait, refuse or readonly",
		set: func(c *Config, v string) error { return setWord(&c.Hold.WhenNotHeld, "word", notHelds, v) }},
	{key: "hold.wait", flag: "hold-wait", kind: kindDuration, usage: "how long a client waits for the lock",
		set: func(c *Config, v string) error { return setDuration(&c.Hold.Wait, v, time.Second, 24*time.Hour) }},
	{key: "bare_token", flag: "bare-token", usage: "fence that a token without a name is meant for (default: the only fence)",
		set: func(c *Config, v string) error { c.BareToken = v; return nil }},
	{key: "opaque", flag: "opaque", usage: "code that may write anything, in a session without a token: allow or reject",
		set: func(c *Config, v string) error { return setWord(&c.Opaque, "policy", opaques, v) }},
	{key: "opaque_call", flag: "opaque-call", usage: "CALL and DO: guard, allow or reject",
		set: func(c *Config, v string) error { return setWord(&c.OpaqueCall, "policy", opaqueCalls, v) }},
	{key: "tokenless", flag: "tokenless", usage: "sessions without a token: readwrite, opaque-readonly or readonly",
		set: func(c *Config, v string) error { return setWord(&c.Tokenless, "policy", tokenlesses, v) }},
	{key: "catalog", flag: "catalog", usage: "look into each database for partitions, views and functions that write a fence: on or off",
		set: func(c *Config, v string) error { return setWord(&c.Catalog, "word", catalogs, v) }},
	{key: "catalog_interval", flag: "catalog-interval", kind: kindDuration, usage: "time between two looks when nothing tells of a change",
		set: func(c *Config, v string) error {
			return setDuration(&c.CatalogInterval, v, 100*time.Millisecond, time.Hour)
		}},
	{key: "catalog_connections", flag: "catalog-connections", kind: kindInteger, usage: "databases to which a connection is kept for that",
		set: func(c *Config, v string) error { return setInteger(&c.CatalogConnections, v, 1, 10_000) }},
	{key: "function_calls", kind: kindFunctions, usage: "functions that may be called outside of SQL: large_objects, or oids",
		set:   addFunctionCall,
		reset: func(c *Config) { c.FunctionCalls = nil }},
	{key: "takeover.grace", flag: "takeover-grace", kind: kindDuration, usage: "how long a raise waits before it ends the backends in its way",
		set: func(c *Config, v string) error { return setDuration(&c.TakeoverGrace, v, 0, 24*time.Hour) }},
	{key: "announce.roles", kind: kindTexts, usage: "roles whose sessions may announce a token (default: all)",
		set:   func(c *Config, v string) error { c.AnnounceRoles = append(c.AnnounceRoles, v); return checkRole(v) },
		reset: func(c *Config) { c.AnnounceRoles = nil }},
	{key: "announce.max_jump", kind: kindInteger, usage: "largest distance between a mark and the token announced next",
		set: func(c *Config, v string) error { return setInteger(&c.AnnounceMaxJump, v, 1, 1<<63-1) }},
	{key: "allow_role_token", kind: kindBool, usage: "accept a token from ALTER ROLE or ALTER DATABASE ... SET fence.token",
		set: func(c *Config, v string) error { return setBool(&c.AllowRoleToken, v) }},
	{key: "harmless_functions", kind: kindTexts, usage: "functions that do not write: name or schema.name",
		set:   addHarmless,
		reset: func(c *Config) { c.HarmlessFunctions = nil }},
	{key: "limits.max_connections", flag: "max-connections", kind: kindInteger, usage: "client sessions at a time",
		set: func(c *Config, v string) error { return setInteger(&c.Limits.MaxConnections, v, 1, 1_000_000) }},
	{key: "limits.login_timeout", flag: "login-timeout", kind: kindDuration, usage: "from accept until the session is ready",
		set: func(c *Config, v string) error { return setDuration(&c.Limits.LoginTimeout, v, time.Second, time.Hour) }},
	{key: "limits.idle_timeout", flag: "idle-timeout", kind: kindDuration, usage: "end a session that says nothing for so long outside a transaction; 0s is never",
		set: func(c *Config, v string) error { return setDuration(&c.Limits.IdleTimeout, v, 0, maxIdle) }},
	{key: "limits.idle_in_transaction_timeout", kind: kindDuration, usage: "end a session that says nothing for so long inside a transaction; 0s is never",
		set: func(c *Config, v string) error { return setDuration(&c.Limits.IdleInTransaction, v, 0, maxIdle) }},
	{key: "limits.max_statement_bytes", kind: kindSize, usage: "a longer statement is refused",
		set: func(c *Config, v string) error { return setSize(&c.Limits.MaxStatementBytes, v, 1<<10, 1<<30) }},
	{key: "limits.max_parse_bytes", kind: kindSize, usage: "a longer statement is not parsed but guarded for every fence",
		set: func(c *Config, v string) error { return setSize(&c.Limits.MaxParseBytes, v, 1<<10, 16<<20) }},
	{key: "limits.cache_bytes", kind: kindSize, usage: "bound of each of the two plan caches",
		set: func(c *Config, v string) error { return setSize(&c.Limits.CacheBytes, v, 64<<10, 64<<30) }},
	{key: "limits.processors", kind: kindInteger, usage: "processors that run sessions at a time; 0 is half of those there are, at least one",
		set: func(c *Config, v string) error { return setInteger(&c.Limits.Processors, v, 0, 1024) }},
	{key: "replication", usage: "connections that ask for replication: refuse or allow",
		set: func(c *Config, v string) error { return setWord(&c.Replication, "policy", replications, v) }},
	{key: "log.level", flag: "log-level", usage: "debug, info, warn or error",
		set: func(c *Config, v string) error { return setWord(&c.LogLevel, "level", logLevels, v) }},
	{key: "log.format", flag: "log-format", usage: "json or console",
		set: func(c *Config, v string) error { return setWord(&c.LogFormat, "format", logFormats, v) }},
	{key: "decision_log", flag: "decision-log", usage: "verdicts that are logged one by one: off, rejections or all",
		set: func(c *Config, v string) error { return setWord(&c.Decisions, "verdicts", decisions, v) }},
	{key: "decision_log_file", usage: "file that they are appended to (default: standard error)",
		set: func(c *Config, v string) error { return setPath(&c.DecisionFile, v) }},
	{key: "decision_log_rate", kind: kindInteger, usage: "lines a second at most; 0 is no limit",
		set: func(c *Config, v string) error { return setInteger(&c.DecisionRate, v, 0, 1_000_000) }},
	{key: "shutdown.delay", flag: "drain-delay", kind: kindDuration, usage: "how long /readyz says no before listeners close, for load balancers to see it",
		set: func(c *Config, v string) error { return setDuration(&c.DrainDelay, v, 0, time.Hour) }},
	{key: "shutdown.drain_timeout", flag: "drain-timeout", kind: kindDuration, usage: "how long sessions may finish after the first signal",
		set: func(c *Config, v string) error { return setDuration(&c.DrainTimeout, v, 0, 24*time.Hour) }},
}

const maxIdle = 30 * 24 * time.Hour

// pooled is listen in its second form, for flags and environment, where an element cannot be a mapping.
var pooled = setting{key: "listen_pooled", flag: "listen-pooled", kind: kindListeners,
	usage: "as --listen, for a listener behind a transaction pooler; repeatable",
	set:   func(c *Config, v string) error { return addListener(c, v, true) },
	reset: func(c *Config) { c.Listen = nil }}

func lookup(key string) *setting {
	for i := range settings {
		if settings[i].key == key {
			return &settings[i]
		}
	}
	return nil
}
