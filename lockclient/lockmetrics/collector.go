// Package lockmetrics counts what a lockclient.Client does, for Prometheus.
package lockmetrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// Collector is a prometheus.Collector that lives on the hooks of any number of clients. Its label lock is a time series
// each: with locks such as jobs/42, give New a function that folds them.
//
//	fenceproxy_lock_held{lock}                   leases held now, lost ones that were not released yet included
//	fenceproxy_lock_wait_seconds{lock}           from Lock to the lease
//	fenceproxy_lock_hold_seconds{lock}           from the lease to Release
//	fenceproxy_lock_renew_seconds{lock}          renewals that succeeded
//	fenceproxy_lock_renew_left_seconds{lock}     what was left of the window when a renewal began
//	fenceproxy_lock_renew_failures_total{lock}   renewals that failed and were tried again
//	fenceproxy_lock_lost_total{lock,reason}      reasons: lockclient.Reason
//	fenceproxy_lock_requeued_total{lock}         places in a queue that were lost
//	fenceproxy_lock_release_failures_total{lock} locks left to end with their TTL
//	fenceproxy_lock_token_regressions_total{lock} tokens not higher than the last one seen
type Collector struct {
	fold func(lock string) string

	held                                  *prometheus.GaugeVec
	wait, hold, renew, left               *prometheus.HistogramVec
	failures, requeued, unreleased, regrs *prometheus.CounterVec
	lost                                  *prometheus.CounterVec
}

// New makes a Collector. fold maps a lock's name to its label; nil is the name itself.
func New(fold func(lock string) string) *Collector {
	if fold == nil {
		fold = func(lock string) string { return lock }
	}
	const prefix = "fenceproxy_lock_"
	label := []string{"lock"}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, label)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, append(label[:1:1], labels...))
	}
	return &Collector{
		fold:       fold,
		held:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "held", Help: "Leases held now."}, label),
		wait:       histogram("wait_seconds", "Time from asking for a lock to holding it."),
		hold:       histogram("hold_seconds", "Time from holding a lock to releasing it."),
		renew:      histogram("renew_seconds", "Time of renewals that succeeded."),
		left:       histogram("renew_left_seconds", "What was left of the trust window when a renewal began."),
		failures:   counter("renew_failures_total", "Renewals that failed and were tried again."),
		lost:       counter("lost_total", "Leases lost, by reason.", "reason"),
		requeued:   counter("requeued_total", "Places in a lock's queue that were lost."),
		unreleased: counter("release_failures_total", "Locks that could not be released and end with their TTL."),
		regrs:      counter("token_regressions_total", "Tokens that were not higher than the last one seen."),
	}
}

// Hooks are for lockclient.WithHooks.
func (c *Collector) Hooks() lockclient.Hooks {
	return lockclient.Hooks{
		Acquired: func(f lockclient.Fence, _ lockclient.Mode, waited time.Duration) {
			lock := c.fold(f.Lock)
			c.held.WithLabelValues(lock).Inc()
			c.wait.WithLabelValues(lock).Observe(waited.Seconds())
		},
		Renewed: func(f lockclient.Fence, took, left time.Duration) {
			lock := c.fold(f.Lock)
			c.renew.WithLabelValues(lock).Observe(took.Seconds())
			c.left.WithLabelValues(lock).Observe(left.Seconds())
		},
		RenewFailed: func(f lockclient.Fence, _ error, _ time.Duration) {
			c.failures.WithLabelValues(c.fold(f.Lock)).Inc()
		},
		Lost: func(e *lockclient.LostError) {
			c.lost.WithLabelValues(c.fold(e.Lock), string(e.Reason)).Inc()
		},
		Released: func(f lockclient.Fence, held time.Duration, err error) {
			lock := c.fold(f.Lock)
			c.held.WithLabelValues(lock).Dec()
			c.hold.WithLabelValues(lock).Observe(held.Seconds())
			if err != nil && !errors.Is(err, lockclient.ErrLost) {
				c.unreleased.WithLabelValues(lock).Inc()
			}
		},
		Requeued:  func(lock string, _ error) { c.requeued.WithLabelValues(c.fold(lock)).Inc() },
		Regressed: func(f lockclient.Fence, _ string) { c.regrs.WithLabelValues(c.fold(f.Lock)).Inc() },
	}
}

func (c *Collector) each(f func(prometheus.Collector)) {
	for _, m := range []prometheus.Collector{c.held, c.wait, c.hold, c.renew, c.left, c.failures, c.lost, c.requeued, c.unreleased, c.regrs} {
		f(m)
	}
}

func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	c.each(func(m prometheus.Collector) { m.Describe(ch) })
}

func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.each(func(m prometheus.Collector) { m.Collect(ch) })
}
