package metrics

import "github.com/prometheus/client_golang/prometheus"

// Plans is what the analyzer of SQL texts counts by itself.
type Plans struct {
	ExactHits, ShapeHits, Misses uint64
	Bytes                        int64 // of both caches
	Parses                       uint64
	ParseSeconds                 float64
	Unknown                      uint64 // texts that could not be read, hits and misses
}

// Plus adds the counters of b, an analyzer that was replaced; its caches are not memory of this process for long.
func (a Plans) Plus(b Plans) Plans {
	a.ExactHits += b.ExactHits
	a.ShapeHits += b.ShapeHits
	a.Misses += b.Misses
	a.Parses += b.Parses
	a.ParseSeconds += b.ParseSeconds
	a.Unknown += b.Unknown
	return a
}

// plans reads the analyzer's counters when Prometheus asks, so that they cost nothing in between.
type plans struct {
	read                      func() Plans
	lookups, bytes, parseTime *prometheus.Desc
	parses, unreadable        *prometheus.Desc
}

// RegisterPlans exposes an analyzer's counters.
func (m *Metrics) RegisterPlans(read func() Plans) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	m.Registry.MustRegister(&plans{
		read:       read,
		lookups:    desc("plan_lookups_total", "Texts looked up, by where their plan was found: the cache of exact texts, the cache of shapes, or the parser (miss).", "result"),
		bytes:      desc("plan_cache_bytes", "Memory held by the two plan caches together."),
		parses:     desc("parses_total", "Runs of PostgreSQL's parser."),
		parseTime:  desc("parse_seconds_total", "Time spent in PostgreSQL's parser."),
		unreadable: desc("unreadable_texts_total", "Texts that could not be read and were taken for writes to every fence."),
	})
}

func (p *plans) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.lookups, p.bytes, p.parses, p.parseTime, p.unreadable} {
		ch <- d
	}
}

func (p *plans) Collect(ch chan<- prometheus.Metric) {
	s := p.read()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	send(p.lookups, prometheus.CounterValue, float64(s.ExactHits), "exact")
	send(p.lookups, prometheus.CounterValue, float64(s.ShapeHits), "shape")
	send(p.lookups, prometheus.CounterValue, float64(s.Misses), "miss")
	send(p.bytes, prometheus.GaugeValue, float64(s.Bytes))
	send(p.parses, prometheus.CounterValue, float64(s.Parses))
	send(p.parseTime, prometheus.CounterValue, s.ParseSeconds)
	send(p.unreadable, prometheus.CounterValue, float64(s.Unknown))
}
