package postgres

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// Commits wait for the disk in all of these, as they do in production: a lease costs two, an advisory lock with its token
// one.

// Acquire and release without contention.
func BenchmarkAcquireRelease(b *testing.B) {
	w := newWorld(b, pgtest.Start(b, pgtest.WithFsync()))
	for _, mode := range []Mode{Lease, Advisory} {
		b.Run(string(mode), func(b *testing.B) {
			c := w.client(Config{Mode: mode})
			b.ReportAllocs()
			for b.Loop() {
				l, err := c.Lock(ctx, "bench")
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Many contenders of one lock, who hold it for nothing: the time of a tenure, handover included. An advisory lock needs a
// connection for each who waits.
func BenchmarkContended(b *testing.B) {
	w := newWorld(b, pgtest.Start(b, pgtest.WithFsync()))
	for _, bench := range []struct {
		mode       Mode
		contenders int
	}{{Lease, 1}, {Lease, 16}, {Lease, 1000}, {Advisory, 1}, {Advisory, 16}, {Advisory, 100}} {
		b.Run(fmt.Sprintf("%s/%d", bench.mode, bench.contenders), func(b *testing.B) {
			c := w.client(Config{Mode: bench.mode}, lockclient.WithTTL(30*time.Second))
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for range bench.contenders {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						l, err := c.Lock(ctx, "bench")
						if err == nil {
							err = l.Release(ctx)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// From the end of a holder that died, its TTL over, to the next one's token.
func BenchmarkFailover(b *testing.B) {
	w := newWorld(b, pgtest.Start(b, pgtest.WithFsync()))
	backend := w.open(Config{})
	c := lockclient.New(backend)
	const dead = 500 * time.Millisecond
	var late time.Duration
	n := 0
	for b.Loop() {
		begin := time.Now()
		if _, err := backend.Request(ctx, lockclient.Request{Name: "bench", TTL: dead}); err != nil {
			b.Fatal(err)
		}
		l, err := c.Lock(ctx, "bench")
		if err != nil {
			b.Fatal(err)
		}
		late += time.Since(begin) - dead
		n++
		l.Release(ctx)
	}
	b.ReportMetric(float64(late.Milliseconds())/float64(n), "ms-after-TTL")
}
