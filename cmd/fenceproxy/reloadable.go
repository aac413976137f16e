package main

import (
	"reflect"
	"slices"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
)

// reloadable are the settings that a reload puts in force, by key, each with how it is taken over. All others are those of
// the process for as long as it runs.
var reloadable = map[string]func(to, from *config.Config){
	"fences":                             func(to, from *config.Config) { to.Fences = from.Fences },
	"bare_token":                         func(to, from *config.Config) { to.BareToken = from.BareToken },
	"opaque":                             func(to, from *config.Config) { to.Opaque = from.Opaque },
	"opaque_call":                        func(to, from *config.Config) { to.OpaqueCall = from.OpaqueCall },
	"tokenless":                          func(to, from *config.Config) { to.Tokenless = from.Tokenless },
	"function_calls":                     func(to, from *config.Config) { to.FunctionCalls = from.FunctionCalls },
	"takeover.grace":                     func(to, from *config.Config) { to.TakeoverGrace = from.TakeoverGrace },
	"announce.roles":                     func(to, from *config.Config) { to.AnnounceRoles = from.AnnounceRoles },
	"announce.max_jump":                  func(to, from *config.Config) { to.AnnounceMaxJump = from.AnnounceMaxJump },
	"allow_role_token":                   func(to, from *config.Config) { to.AllowRoleToken = from.AllowRoleToken },
	"harmless_functions":                 func(to, from *config.Config) { to.HarmlessFunctions = from.HarmlessFunctions },
	"limits.max_connections":             func(to, from *config.Config) { to.Limits.MaxConnections = from.Limits.MaxConnections },
	"limits.login_timeout":               func(to, from *config.Config) { to.Limits.LoginTimeout = from.Limits.LoginTimeout },
	"limits.idle_timeout":                func(to, from *config.Config) { to.Limits.IdleTimeout = from.Limits.IdleTimeout },
	"limits.idle_in_transaction_timeout": func(to, from *config.Config) { to.Limits.IdleInTransaction = from.Limits.IdleInTransaction },
	"limits.max_statement_bytes":         func(to, from *config.Config) { to.Limits.MaxStatementBytes = from.Limits.MaxStatementBytes },
	"limits.max_parse_bytes":             func(to, from *config.Config) { to.Limits.MaxParseBytes = from.Limits.MaxParseBytes },
	"limits.cache_bytes":                 func(to, from *config.Config) { to.Limits.CacheBytes = from.Limits.CacheBytes },
	"replication":                        func(to, from *config.Config) { to.Replication = from.Replication },
	"log.level":                          func(to, from *config.Config) { to.LogLevel = from.LogLevel },
	"decision_log":                       func(to, from *config.Config) { to.Decisions = from.Decisions },
	"decision_log_rate":                  func(to, from *config.Config) { to.DecisionRate = from.DecisionRate },
	"shutdown.delay":                     func(to, from *config.Config) { to.DrainDelay = from.DrainDelay },
	"shutdown.drain_timeout":             func(to, from *config.Config) { to.DrainTimeout = from.DrainTimeout },
}

// merge is a configuration with the settings of wanted that can change in a running process, and the others of current.
// restart are the keys of those in which they differ.
func merge(current, wanted *config.Config) (merged *config.Config, changed, restart []string) {
	c := *current
	for _, key := range config.Changed(current, wanted) {
		take, ok := reloadable[key]
		if !ok {
			restart = append(restart, key)
			continue
		}
		take(&c, wanted)
		changed = append(changed, key)
	}
	return &c, changed, restart
}

// mustRetire reports whether sessions that run under a may not go on beside sessions under b: what one of them writes, or
// what its tokens mean, would be judged otherwise. Sessions that are judged more strictly than they would have to be may.
func mustRetire(a, b *config.Config) bool {
	gone := func(from, to []string) bool {
		return slices.ContainsFunc(from, func(s string) bool { return !slices.Contains(to, s) })
	}
	return !reflect.DeepEqual(a.Fences, b.Fences) || a.BareFence() != b.BareFence() ||
		a.Opaque == config.OpaqueAllow && b.Opaque != config.OpaqueAllow ||
		a.OpaqueCall != b.OpaqueCall && b.OpaqueCall != config.OpaqueCallAllow ||
		b.Tokenless.Rank() > a.Tokenless.Rank() ||
		a.AllowRoleToken && !b.AllowRoleToken ||
		gone(a.HarmlessFunctions, b.HarmlessFunctions) || gone(a.FunctionCalls, b.FunctionCalls)
}
