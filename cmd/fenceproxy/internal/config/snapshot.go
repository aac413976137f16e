package config

import "github.com/fenceproxy/fenceproxy/rewrite"

// Rewrite is the part of the configuration that SQL texts are analyzed by.
func (c *Config) Rewrite() rewrite.Config {
	fences := make([]rewrite.Fence, len(c.Fences))
	for i, f := range c.Fences {
		fences[i] = rewrite.Fence{Name: f.Name, Tables: f.Tables, RowToken: f.RowToken, Scope: f.Scope, BareToken: f.Name == c.BareFence()}
		if f.OnStale == OnStaleRewrite {
			fences[i].OnStale = rewrite.StaleRewrite
		}
	}
	return rewrite.Config{
		Fences:            fences,
		HarmlessFunctions: c.HarmlessFunctions,
		CacheBytes:        c.Limits.CacheBytes,
		MaxParseBytes:     int(c.Limits.MaxParseBytes),
	}
}
