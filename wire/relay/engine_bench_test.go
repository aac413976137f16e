package relay

import (
	"slices"
	"testing"
)

// BenchmarkEngine is the engine's own cost of a transaction, both directions, without sockets. The claim that it is made
// for: 0 allocations per forwarded message (README).
func BenchmarkEngine(b *testing.B) {
	for _, k := range []struct {
		name           string
		client, server []string
	}{
		{"prepared read", []string{"B |r", "E", "S"}, []string{"2", "D 1", "C SELECT 1", "Z I"}},
		{"simple read", []string{"Q " + readSQL}, []string{"T", "D 1", "C SELECT 1", "Z I"}},
		{"prepared fenced write", []string{"B |w", "E", "S"}, append(append([]string{"2"}, guardReplies(false)...), "C UPDATE 1", "Z I")},
		{"simple fenced write", []string{"Q " + writeSQL}, append(slices.Clone(simpleGuardReplies), "C UPDATE 1", "Z I")},
	} {
		b.Run(k.name, func(b *testing.B) {
			c := newTalk(b, testConfig(b), "34")
			c.client("P r|"+readSQL, "P w|"+writeSQL, "S")
			c.server("1", "1", "Z I")
			if k.name == "simple fenced write" {
				c.prepare()
			}
			if k.name == "prepared fenced write" {
				c.client(k.client...)
				c.server(append(append([]string{"2"}, guardReplies(true)...), "C UPDATE 1", "Z I")...)
			}
			var in, back []byte
			for _, m := range k.client {
				in = append(in, frontend(nil, m)...)
			}
			for _, m := range k.server {
				back = append(back, backend(m)...)
			}
			b.ReportAllocs()
			for b.Loop() {
				c.out.Reset()
				if _, err := c.e.FromClient(in, &c.out); err != nil {
					b.Fatal(err)
				}
				c.out.Reset()
				if err := c.e.FromServer(back, &c.out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
