package lockclient

import "time"

// reading is one look at both clocks. Go's monotonic clock stands still while the system is suspended (golang/go#24595),
// the wall clock may be set back: time that passed on either of them has passed.
type reading struct{ mono, wall time.Duration }

// clock reads time since it was made.
type clock struct {
	base      time.Time
	now, wall func() time.Time // wall is a clock of its own in tests only
}

func newClock(now, wall func() time.Time) clock {
	if now == nil {
		now = time.Now
	}
	return clock{base: now(), now: now, wall: wall}
}

func (c clock) read() reading {
	r := c.at(c.now())
	if c.wall != nil {
		r.wall = c.wall().Sub(c.base.Round(0))
	}
	return r
}

func (c clock) at(t time.Time) reading {
	return reading{mono: t.Sub(c.base), wall: t.Round(0).Sub(c.base.Round(0))} // Round(0) drops the monotonic part
}

// elapsed since r.
func (r reading) elapsed(now reading) time.Duration { return max(now.mono-r.mono, now.wall-r.wall) }

// window is the time in which a claim can be trusted: nobody else can be given the lock before it closes.
type window struct {
	sent reading // when the request that opened it was sent
	size time.Duration
}

func newWindow(sent reading, ttl time.Duration, drift float64) window {
	return window{sent: sent, size: ttl - time.Duration(float64(ttl)*drift)}
}

// left is what is left of it at now, negative once it has closed.
func (w window) left(now reading) time.Duration { return w.size - w.sent.elapsed(now) }
