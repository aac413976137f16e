package config

import (
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// line is a setting with its value as text, or as a list.
type line struct {
	key   string
	value string
	list  bool
	empty bool // shown when empty too, because the default is not
	items []any
}

// whenHeld is "" where no lock is held: such a setting would be an error.
func whenHeld(c *Config, value string) string {
	if c.Hold.Lock == "" {
		return ""
	}
	return value
}

// document is the configuration in the order of the settings table. DSNs are redacted.
func document(c *Config) []line {
	texts := func(list []string) []any {
		items := make([]any, len(list))
		for i := range list {
			items[i] = list[i]
		}
		return items
	}
	var listen, fences []any
	for _, l := range c.Listen {
		if l.Pooled {
			listen = append(listen, yaml.MapSlice{{Key: "address", Value: l.Address}, {Key: "pooled", Value: true}})
		} else {
			listen = append(listen, l.Address)
		}
	}
	for _, f := range c.Fences {
		fences = append(fences, fenceItems(f))
	}
	return []line{
		{key: "listen", list: true, items: listen},
		{key: "tls.mode", value: string(c.TLS.Mode)},
		{key: "tls.cert", value: c.TLS.Cert},
		{key: "tls.key", value: c.TLS.Key},
		{key: "tls.client_ca", value: c.TLS.ClientCA},
		{key: "tls.client_cert", value: string(c.TLS.ClientCert)},
		{key: "tls.channel_binding", value: string(c.TLS.ChannelBinding)},
		{key: "auth", value: string(c.Auth)},
		{key: "auth_query", value: c.AuthQuery},
		{key: "auth_file", value: c.AuthFile},
		{key: "auth_cache", value: shortDuration(c.AuthCache)},
		{key: "listen_reuseport", value: strconv.FormatBool(c.ListenReuseport)},
		{key: "upstream", value: RedactDSN(c.Upstream)},
		{key: "control", value: RedactDSN(c.Control)},
		{key: "admin", value: c.Admin},
		{key: "mode", value: string(c.Mode)},
		{key: "fences", list: true, items: fences},
		{key: "hold.lock", value: c.Hold.Lock},
		{key: "hold.backend", value: Mask(c.Hold.Backend)},
		{key: "hold.when_not_held", value: whenHeld(c, string(c.Hold.WhenNotHeld))},
		{key: "hold.wait", value: whenHeld(c, shortDuration(c.Hold.Wait))},
		{key: "bare_token", value: c.BareToken},
		{key: "opaque", value: string(c.Opaque)},
		{key: "opaque_call", value: string(c.OpaqueCall)},
		{key: "tokenless", value: string(c.Tokenless)},
		{key: "catalog", value: string(c.Catalog)},
		{key: "catalog_interval", value: shortDuration(c.CatalogInterval)},
		{key: "catalog_connections", value: strconv.Itoa(c.CatalogConnections)},
		{key: "function_calls", list: true, empty: true, items: texts(c.FunctionCalls)},
		{key: "takeover.grace", value: shortDuration(c.TakeoverGrace)},
		{key: "announce.roles", list: true, items: texts(c.AnnounceRoles)},
		{key: "announce.max_jump", value: strconv.FormatInt(c.AnnounceMaxJump, 10)},
		{key: "allow_role_token", value: strconv.FormatBool(c.AllowRoleToken)},
		{key: "harmless_functions", list: true, items: texts(c.HarmlessFunctions)},
		{key: "limits.max_connections", value: strconv.Itoa(c.Limits.MaxConnections)},
		{key: "limits.login_timeout", value: shortDuration(c.Limits.LoginTimeout)},
		{key: "limits.idle_timeout", value: shortDuration(c.Limits.IdleTimeout)},
		{key: "limits.idle_in_transaction_timeout", value: shortDuration(c.Limits.IdleInTransaction)},
		{key: "limits.max_statement_bytes", value: sizeText(c.Limits.MaxStatementBytes)},
		{key: "limits.max_parse_bytes", value: sizeText(c.Limits.MaxParseBytes)},
		{key: "limits.cache_bytes", value: sizeText(c.Limits.CacheBytes)},
		{key: "limits.processors", value: strconv.Itoa(c.Limits.Processors)},
		{key: "replication", value: string(c.Replication)},
		{key: "log.level", value: string(c.LogLevel)},
		{key: "log.format", value: string(c.LogFormat)},
		{key: "decision_log", value: string(c.Decisions)},
		{key: "decision_log_file", value: c.DecisionFile},
		{key: "decision_log_rate", value: strconv.Itoa(c.DecisionRate)},
		{key: "shutdown.delay", value: shortDuration(c.DrainDelay)},
		{key: "shutdown.drain_timeout", value: shortDuration(c.DrainTimeout)},
	}
}

// Write prints the configuration as YAML that Load accepts, except for the passwords, which are not shown. Settings
// that are empty are left out.
func (c *Config) Write(w io.Writer) error {
	var root yaml.MapSlice
	for _, l := range document(c) {
		value, empty := typed(l)
		if empty {
			continue
		}
		group, name, nested := strings.Cut(l.key, ".")
		if !nested {
			root = append(root, yaml.MapItem{Key: l.key, Value: value})
			continue
		}
		if n := len(root); n == 0 || root[n-1].Key != group {
			root = append(root, yaml.MapItem{Key: group, Value: yaml.MapSlice{}})
		}
		last := &root[len(root)-1]
		last.Value = append(last.Value.(yaml.MapSlice), yaml.MapItem{Key: name, Value: value})
	}
	return yaml.NewEncoder(w, yaml.IndentSequence(true)).Encode(root)
}

func fenceItems(f Fence) yaml.MapSlice {
	items := yaml.MapSlice{{Key: "name", Value: f.Name}, {Key: "tables", Value: f.Tables}}
	for _, part := range fenceParts {
		if value := *part.of(&f); value != "" {
			items = append(items, yaml.MapItem{Key: part.key, Value: value})
		}
	}
	return items
}

func typed(l line) (value any, empty bool) {
	if l.list {
		return l.items, len(l.items) == 0 && !l.empty
	}
	switch lookup(l.key).kind {
	case kindInteger:
		n, _ := strconv.ParseInt(l.value, 10, 64)
		return n, false
	case kindBool:
		return l.value == "true", false
	}
	return l.value, l.value == ""
}
