package metrics

import (
	"time"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// Raised implements tokens.ControlEvents.
func (m *Metrics) Raised(_ string, mark tokens.Mark, _ tokens.Token, waited time.Duration) {
	m.raises.WithLabelValues(m.fence(mark.Name)).Inc()
	m.raiseWait.Observe(waited.Seconds())
}

// Evicted implements tokens.ControlEvents.
func (m *Metrics) Evicted(_, fence string, _ int, _, _ string) {
	m.evictions.WithLabelValues(m.fence(fence)).Inc()
}

// RaiseWaiting implements tokens.ControlEvents.
func (m *Metrics) RaiseWaiting(_, fence string, _ time.Duration, _ int) {
	m.raiseWaiting.WithLabelValues(m.fence(fence)).Inc()
}

// RaiseFailed implements tokens.ControlEvents.
func (m *Metrics) RaiseFailed(_, fence, code string) {
	m.raiseFailed.WithLabelValues(m.fence(fence), boundCode(code)).Inc()
}
