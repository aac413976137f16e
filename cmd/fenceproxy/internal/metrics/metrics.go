package metrics

import (
	"maps"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/logging"
	"github.com/fenceproxy/fenceproxy/tokens"
)

const (
	namespace = "fenceproxy"
	// other takes the place of a label value outside its closed set.
	other = "other"
	// none is the fence of a rejection that no single fence is meant by.
	none = ""
)

// Metrics are all collectors of a process, in a registry of their own. Safe for concurrent use.
type Metrics struct {
	Registry *prometheus.Registry
	Recorder *Recorder

	sessions       prometheus.Gauge
	sessionsTotal  prometheus.Counter
	sessionSeconds prometheus.Histogram
	ended          *prometheus.CounterVec
	refused        *prometheus.CounterVec
	cancels        *prometheus.CounterVec
	dialSeconds    prometheus.Histogram
	dialErrors     prometheus.Counter
	panics         prometheus.Counter
	suppressed     prometheus.Counter

	reloads       reloads
	lostDecisions *prometheus.CounterVec
	catalogErrors prometheus.Counter

	fences       atomic.Pointer[map[string]bool]
	raises       *prometheus.CounterVec
	raiseFailed  *prometheus.CounterVec
	raiseWait    prometheus.Histogram
	raiseWaiting *prometheus.CounterVec
	evictions    *prometheus.CounterVec
}

// Build is what the build_info metric says.
type Build struct {
	Version, Commit, GoVersion, Schema, Mode string
}

// New makes the collectors. fences are the names that may become label values.
func New(b Build, fences []string) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{
		Registry: r,
		sessions: gauge("sessions", "Client sessions open now."),
		sessionsTotal: counter("sessions_opened_total",
			"Client sessions accepted."),
		sessionSeconds: histogram("session_duration_seconds", "Length of client sessions that have ended.",
			[]float64{.01, .1, 1, 10, 60, 600, 3600, 86400}),
		ended: counters("sessions_ended_total", "Client sessions that have ended, by reason.", "reason"),
		refused: counters("connections_refused_total",
			"Connections that did not become a session, by reason.", "reason"),
		cancels: counters("cancels_total", "Cancel requests, by whether they were passed on.", "relayed"),
		dialSeconds: histogram("upstream_dial_seconds", "Time to open a connection to the upstream.",
			[]float64{.0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
		dialErrors:    counter("upstream_dial_errors_total", "Connections to the upstream that could not be opened."),
		panics:        counter("panics_total", "Panics caught; each ended one session."),
		suppressed:    counter("log_lines_suppressed_total", "Rejections counted but not logged, to bound the log in a flood."),
		reloads:       newReloads(),
		catalogErrors: counter("catalog_errors_total", "Looks into a database's catalog that failed."),
		lostDecisions: counters("decision_log_dropped_total",
			"Lines of the decision log that were dropped: over its rate, or because they could not be written soon enough, or at all.", "reason"),
		raises: counters("raises_total", "Marks raised by this proxy: a takeover each.", "fence"),
		raiseFailed: counters("raise_failures_total",
			"Raises that failed, by fence and SQLSTATE.", "fence", "code"),
		raiseWait: histogram("raise_wait_seconds", "Time a raise waited until transactions under the older token had ended.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60}),
		raiseWaiting: counters("raise_overdue_total",
			"Times that a raise was found still waiting for other backends.", "fence"),
		evictions: counters("evictions_total", "Backends ended because they stood in the way of a raise.", "fence"),
	}
	m.Recorder = newRecorder(m)
	m.SetFences(fences)
	info := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info",
		Help: "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": b.GoVersion,
			"schema": b.Schema, "mode": b.Mode}})
	info.Set(1)
	r.MustRegister(info, m.sessions, m.sessionsTotal, m.sessionSeconds, m.ended, m.refused, m.cancels, m.dialSeconds, m.dialErrors, m.panics,
		m.suppressed, m.raises, m.raiseFailed, m.raiseWait, m.raiseWaiting, m.evictions,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(m.reloads.collectors()...)
	r.MustRegister(m.lostDecisions, m.catalogErrors)
	for _, reason := range []logging.DropReason{logging.DropRate, logging.DropQueue, logging.DropWrite} {
		m.lostDecisions.WithLabelValues(string(reason))
	}
	m.Recorder.register(r)
	return m
}

// SetFences says which fences may be label values from now on. Those of before stay: their counters do.
func (m *Metrics) SetFences(fences []string) {
	known := make(map[string]bool, len(fences))
	if before := m.fences.Load(); before != nil {
		maps.Copy(known, *before)
	}
	for _, f := range fences {
		known[f] = true
		// A fence's counters exist from the start: rate() of a counter that appears with its first event misses it.
		m.raises.WithLabelValues(f)
		m.evictions.WithLabelValues(f)
		m.Recorder.expect(f)
	}
	m.fences.Store(&known)
}

// fence bounds the label: a name that is not configured may come from a client.
func (m *Metrics) fence(name string) string {
	known := *m.fences.Load()
	if name == none || known[name] {
		return name
	}
	label := other
	for fence := range known { // patterns; of two the same one each time
		if tokens.Matches(fence, name) && (label == other || fence < label) {
			label = fence
		}
	}
	return label
}

// DecisionDropped counts a line that is not in the decision log.
func (m *Metrics) DecisionDropped(reason logging.DropReason) {
	m.lostDecisions.WithLabelValues(string(reason)).Inc()
}

// Suppressed counts rejections that were not logged.
func (m *Metrics) Suppressed(n int) { m.suppressed.Add(float64(n)) }

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}
