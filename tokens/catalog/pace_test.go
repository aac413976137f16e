package catalog

import (
	"testing"
	"time"
)

// A look that somebody asks for begins at once unless looks have taken much time lately.
func TestPaceOfLooks(t *testing.T) {
	const ms = time.Millisecond
	for _, k := range []struct {
		what            string
		gap, look       time.Duration // between looks, and what one takes
		looks           int
		atLeast, atMost time.Duration // to wait behind the last one
	}{
		{"the first", 0, 40 * ms, 1, 0, 0},
		{"some at once", 0, 40 * ms, 12, 0, 0},
		{"more", 0, 40 * ms, 14, 500 * ms, 700 * ms},
		{"many at once", 0, 40 * ms, 100, time.Second, time.Second},
		{"many, with pauses", 400 * ms, 40 * ms, 1000, 0, 0},
		{"a long one", 0, 5 * time.Second, 1, time.Second, time.Second},
	} {
		var p pace
		now := time.Now()
		for range k.looks {
			now = now.Add(k.gap)
			p.looked(now, now.Add(k.look))
			now = now.Add(k.look)
		}
		if got := p.wait(now); got < k.atLeast || got > k.atMost {
			t.Errorf("%s: wait %v, want %v to %v", k.what, got, k.atLeast, k.atMost)
		}
		if got := p.wait(now.Add(time.Second)); got != 0 {
			t.Errorf("%s: wait %v a second later", k.what, got)
		}
	}
}
