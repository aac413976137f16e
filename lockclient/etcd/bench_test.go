package etcd_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

// Acquire and release without contention, a fresh lease each. "settled" waits until the lease is revoked too, which
// Release leaves behind; concurrency.Mutex's Close does not.
func BenchmarkAcquireRelease(b *testing.B) {
	cluster := etcdtest.Start(b, 1)
	raw := cluster.Client()
	b.Run("concurrency", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s, err := concurrency.NewSession(raw, concurrency.WithTTL(10))
			if err != nil {
				b.Fatal(err)
			}
			m := concurrency.NewMutex(s, "bench-stock")
			if err := m.Lock(background); err != nil {
				b.Fatal(err)
			}
			if err := m.Unlock(background); err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
	for _, settled := range []bool{false, true} {
		name := "ours"
		if settled {
			name = "ours, settled"
		}
		b.Run(name, func(b *testing.B) {
			backend := newBackend(b, raw)
			client := lockclient.New(backend, lockclient.WithTTL(10*time.Second))
			b.ReportAllocs()
			for b.Loop() {
				l, err := client.Lock(background, "bench-ours")
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Release(background); err != nil {
					b.Fatal(err)
				}
				if settled {
					backend.Settle()
				}
			}
		})
	}
}

// Check is called before every write.
func BenchmarkCheck(b *testing.B) {
	cluster := etcdtest.Start(b, 1)
	l, err := newClient(b, cluster.Client()).Lock(background, "check")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Check(); err != nil {
			b.Fatal(err)
		}
	}
	l.Release(background)
}

// Many contenders of one lock, who hold it for nothing: the time of a tenure, handover included. All share one connection,
// which is what limits them on one machine.
func BenchmarkContended(b *testing.B) {
	cluster := etcdtest.Start(b, 1)
	raw := cluster.Client()
	stock := func() error {
		s, err := concurrency.NewSession(raw, concurrency.WithTTL(30))
		if err != nil {
			return err
		}
		defer s.Close()
		m := concurrency.NewMutex(s, "bench-stock")
		if err := m.Lock(background); err != nil {
			return err
		}
		return m.Unlock(background)
	}
	client := newClient(b, raw, lockclient.WithTTL(30*time.Second))
	ours := func() error {
		l, err := client.Lock(background, "bench-ours")
		if err != nil {
			return err
		}
		return l.Release(background)
	}
	for _, contenders := range []int{16, 1000} {
		for name, tenure := range map[string]func() error{"concurrency": stock, "ours": ours} {
			b.Run(fmt.Sprintf("%s/%d", name, contenders), func(b *testing.B) {
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for range contenders {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if err := tenure(); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
