package proxytest

import (
	"strconv"
	"strings"
	"testing"
)

// Metric sums the samples of a metric whose labels hold all of the given label="value" texts.
func (p *Proxy) Metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	_, body, err := p.Get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
lines:
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue lines
			}
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum += value
	}
	return sum
}
