package lockmetrics_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/lockmetrics"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

func TestCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Bool
		conn := memory.NewServer(1).Connect()
		conn.Link = func(kind string) memory.Fate { return memory.Fate{Fail: fail.Load() && kind == "renew"} }
		metrics := lockmetrics.New(func(lock string) string { name, _, _ := strings.Cut(lock, "/"); return name })
		client := lockclient.New(conn, lockclient.WithTTL(time.Second), lockclient.WithHooks(metrics.Hooks()))
		l, err := client.Lock(context.Background(), "jobs/1")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		l.Release(context.Background())
		if l, err = client.Lock(context.Background(), "jobs/2"); err != nil {
			t.Fatal(err)
		}
		fail.Store(true)
		<-l.Done()
		if err := testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP fenceproxy_lock_held Leases held now.
# TYPE fenceproxy_lock_held gauge
fenceproxy_lock_held{lock="jobs"} 1
# HELP fenceproxy_lock_lost_total Leases lost, by reason.
# TYPE fenceproxy_lock_lost_total counter
fenceproxy_lock_lost_total{lock="jobs",reason="expired"} 1
`), "fenceproxy_lock_held", "fenceproxy_lock_lost_total"); err != nil {
			t.Error(err)
		}
		if n := testutil.CollectAndCount(metrics, "fenceproxy_lock_renew_failures_total"); n != 1 {
			t.Errorf("%d series of renewal failures", n)
		}
		if problems, err := testutil.CollectAndLint(metrics); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
		l.Release(context.Background())
	})
}
