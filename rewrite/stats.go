package rewrite

import (
	"sync/atomic"
	"time"
)

// Stats are counters since the Analyzer was made, and the present size of its caches.
type Stats struct {
	HitsExact, HitsShape, Misses uint64
	Unknown                      uint64 // texts judged EffectUnknown
	Parses                       uint64
	ParseSeconds                 float64
	Bytes                        int64 // held by both caches
}

// counters are striped so that sessions on many processors do not share a cache line.
type counters struct {
	stripes [16]struct {
		exact, shape, unknown atomic.Uint64
		_                     [104]byte
	}
	misses, parses, parseNanos atomic.Uint64
}

func (c *counters) parsed(d time.Duration) {
	c.parses.Add(1)
	c.parseNanos.Add(uint64(d))
}

// Stats returns the counters. Safe for concurrent use.
func (a *Analyzer) Stats() Stats {
	c := &a.stats
	s := Stats{
		Misses: c.misses.Load(), Parses: c.parses.Load(),
		ParseSeconds: time.Duration(c.parseNanos.Load()).Seconds(),
		Bytes:        a.exact.bytes.Load() + a.shapes.bytes.Load(),
	}
	for i := range c.stripes {
		s.HitsExact += c.stripes[i].exact.Load()
		s.HitsShape += c.stripes[i].shape.Load()
		s.Unknown += c.stripes[i].unknown.Load()
	}
	return s
}
