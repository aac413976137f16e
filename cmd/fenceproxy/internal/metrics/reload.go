package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ReloadResult is what became of a reload. A closed set: it is a label.
type ReloadResult string

const (
	ReloadApplied   ReloadResult = "applied"
	ReloadUnchanged ReloadResult = "unchanged"
	ReloadFailed    ReloadResult = "failed"
)

// reloads counts reloads of the configuration.
type reloads struct {
	total   *prometheus.CounterVec
	success prometheus.Gauge
	stamp   prometheus.Gauge
}

func newReloads() reloads {
	r := reloads{
		total:   counters("config_reload_total", "Reloads of the configuration, by result.", "result"),
		success: gauge("config_reload_success", "Whether the last reload of the configuration succeeded; 1 before the first."),
		stamp:   gauge("config_reload_success_timestamp_seconds", "When the configuration in force was read."),
	}
	for _, result := range []ReloadResult{ReloadApplied, ReloadUnchanged, ReloadFailed} {
		r.total.WithLabelValues(string(result))
	}
	r.success.Set(1)
	r.stamp.SetToCurrentTime()
	return r
}

func (r reloads) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.total, r.success, r.stamp}
}

// Reloaded counts a reload that was tried at a time.
func (m *Metrics) Reloaded(result ReloadResult, at time.Time) {
	m.reloads.total.WithLabelValues(string(result)).Inc()
	if result == ReloadFailed {
		m.reloads.success.Set(0)
		return
	}
	m.reloads.success.Set(1)
	m.reloads.stamp.Set(float64(at.UnixMilli()) / 1000)
}

// RegisterOldSessions exposes the number of sessions that run under a configuration which a reload has replaced.
func (m *Metrics) RegisterOldSessions(read func() int) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: "config_reload_old_sessions",
		Help: "Sessions that still run under a configuration that a reload has replaced."},
		func() float64 { return float64(read()) }))
}
