package metrics

import (
	"strconv"
	"time"

	"github.com/fenceproxy/fenceproxy/wire/relay"
)

var _ relay.ServerEvents = (*Metrics)(nil)

// SessionOpened implements relay.ServerEvents.
func (m *Metrics) SessionOpened() {
	m.sessions.Inc()
	m.sessionsTotal.Inc()
}

// SessionClosed implements relay.ServerEvents.
func (m *Metrics) SessionClosed(reason relay.EndReason, lasted time.Duration) {
	m.sessions.Dec()
	m.ended.WithLabelValues(reason.String()).Inc()
	m.sessionSeconds.Observe(lasted.Seconds())
}

// Refused implements relay.ServerEvents.
func (m *Metrics) Refused(reason relay.RefuseReason) {
	m.refused.WithLabelValues(reason.String()).Inc()
}

// Dialed implements relay.ServerEvents.
func (m *Metrics) Dialed(took time.Duration, ok bool) {
	if !ok {
		m.dialErrors.Inc()
		return
	}
	m.dialSeconds.Observe(took.Seconds())
}

// Canceled implements relay.ServerEvents.
func (m *Metrics) Canceled(relayed bool) {
	m.cancels.WithLabelValues(strconv.FormatBool(relayed)).Inc()
}

// Panicked implements relay.ServerEvents.
func (m *Metrics) Panicked() { m.panics.Inc() }
