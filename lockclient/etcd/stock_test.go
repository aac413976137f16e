package etcd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

// The negative control of testExpiredWaiter: on the same schedule the lock service of an etcd 3.4 server, with the token
// that is commonly taken from it, makes two holders with one token.
func TestStockLockService(t *testing.T) {
	t.Parallel()
	endpoint := etcdtest.Installed(t)
	c := etcdtest.Dial(t, endpoint)
	status, err := c.Status(background, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(status.Version, "3.4.") {
		t.Skipf("etcd %s is installed; the fault is in 3.4", status.Version)
	}
	service := v3lockpb.NewLockClient(c.ActiveConnection())
	grant := func(ttl int64) clientv3.LeaseID {
		l, err := c.Grant(background, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return l.ID
	}
	acquire := func(id clientv3.LeaseID) (*v3lockpb.LockResponse, error) {
		ctx, cancel := context.WithTimeout(background, 20*time.Second)
		defer cancel()
		return service.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("stock"), Lease: int64(id)})
	}
	queued := func(n int64) {
		eventually(t, "does not queue", func() bool {
			resp, err := c.Get(background, "stock/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			return err == nil && resp.Count == n
		})
	}
	a, err := acquire(grant(60))
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		*v3lockpb.LockResponse
		error
	}
	answers := make(chan answer, 2)
	for i, ttl := range []int64{2, 60} {
		id := grant(ttl)
		go func() {
			r, err := acquire(id)
			answers <- answer{r, err}
		}()
		queued(int64(i + 2))
	}
	queued(2) // B's lease has expired
	if _, err := service.Unlock(background, &v3lockpb.UnlockRequest{Key: a.Key}); err != nil {
		t.Fatal(err)
	}
	b, d := <-answers, <-answers
	if b.error != nil || d.error != nil {
		t.Fatalf("the service is better than its reputation: %v, %v", b.error, d.error)
	}
	t.Logf("etcd %s: two holders, %s and %s, with header revisions %d and %d", status.Version, b.Key, d.Key, b.Header.Revision, d.Header.Revision)
	if b.Header.Revision != d.Header.Revision {
		t.Error("the tokens differ: the control proves nothing")
	}
}
