package etcd_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// A claim is one key of one creation. A renewal does not bring it back when it is gone, and neither a renewal nor a release
// takes a later key of the same name for its own. Straight to the backend: a client's watch would notice the loss first.
func testClaims(t *testing.T, c *clientv3.Client) {
	b := newBackend(t, c)
	claim, err := b.Request(background, lockclient.Request{Name: "claims", TTL: time.Minute, Holder: "h"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(background, claim); err != nil {
		t.Error("renewal of a claim that is held:", err)
	}
	resp, err := c.Get(background, "fenceproxy/locks/claims=", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatal(resp, err)
	}
	own := resp.Kvs[0]
	if _, err := c.Delete(background, string(own.Key)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(background, claim); !errors.Is(err, lockclient.ErrLost) {
		t.Error("renewal of a claim that is gone:", err)
	}
	if n := keys(t, c, "claims"); n != 0 {
		t.Error("the renewal has created the lock anew")
	}
	if _, err := c.Put(background, string(own.Key), "somebody else"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(background, claim); !errors.Is(err, lockclient.ErrLost) {
		t.Error("renewal with somebody else's key:", err)
	}
	if err := b.Release(background, claim); !errors.Is(err, lockclient.ErrLost) {
		t.Error("release with somebody else's key:", err)
	}
	if n := keys(t, c, "claims"); n != 1 {
		t.Error("the release has deleted somebody else's key")
	}
	c.Delete(background, string(own.Key))
}
