package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

type results struct {
	free     map[string]cost
	wanted   map[string]map[int]float64
	orphaned map[string][]time.Duration // ascending
}

func (r results) table(out io.Writer, p plan) {
	fmt.Fprintf(out, "\nacquire and release of a free lock in ms; tenures per second of one lock by contenders; seconds from kill -9 of the\nholder to the next one's lease, TTL %v, %d holders\n\n", failoverTTL, p.holders)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "service\tall work\tcaller waits\t")
	for _, n := range p.contenders {
		fmt.Fprintf(w, "%d\t", n)
	}
	fmt.Fprintln(w, "failover, median\tworst\t")
	for _, s := range services {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t", s, ms(r.free[s].each), ms(r.free[s].caller))
		for _, n := range p.contenders {
			digits := 0
			if r.wanted[s][n] < 10 {
				digits = 1
			}
			fmt.Fprintf(w, "%.*f\t", digits, r.wanted[s][n])
		}
		fmt.Fprintf(w, "%.2f\t%.2f\t\n", median(r.orphaned[s]).Seconds(), r.worst(s).Seconds())
	}
	w.Flush()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r results) worst(service string) time.Duration {
	return r.orphaned[service][len(r.orphaned[service])-1]
}

// judge compares with the targets.
func (r results) judge(out io.Writer) (ok bool) {
	fmt.Fprintln(out)
	ok = true
	check := func(what string, value, limit float64) {
		word := "PASS"
		if !(value <= limit) {
			word, ok = "FAIL", false
		}
		fmt.Fprintf(out, "%s  %s: %.2f (<= %.2f)\n", word, what, value, limit)
	}
	check("a free lock, etcd / NewSession + Mutex.Lock + Unlock + Close, all work", ratio(r.free[ours].each, r.free[mutex].each), 1)
	check("a free lock, etcd / NewSession + Mutex.Lock + Unlock + Close, what the caller waits", ratio(r.free[ours].caller, r.free[mutex].caller), 1)
	ttl := failoverTTL.Seconds()
	check("failover, etcd, worst, seconds", r.worst(ours).Seconds(), ttl+0.6)
	check("failover, lease table, worst, seconds", r.worst(lease).Seconds(), ttl+0.2)
	return ok
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
