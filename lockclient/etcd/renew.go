package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// Renew extends the lease and then proves by a linearizable read that the key is there. Only a missing key is a loss: "lease
// not found" may come from a member that has not caught up.
func (b *Backend) Renew(ctx context.Context, c lockclient.Claim) (time.Duration, error) {
	r := c.Ref.(ref)
	ttl, kept := b.alive.once(ctx, r.lease)
	if kept != nil && !errors.Is(kept, rpctypes.ErrLeaseNotFound) {
		return 0, sorted(ctx, kept)
	}
	if kept == nil && !c.Held { // Wait watches the key
		return ttl, nil
	}
	if _, err := b.exists(ctx, r); errors.Is(err, lockclient.ErrLost) {
		return 0, err
	} else if err != nil {
		return 0, sorted(ctx, err)
	}
	if kept != nil {
		return 0, sorted(ctx, errUnclear)
	}
	return ttl, nil
}

// Release deletes the key if it is still the one that this claim created, and has the lease revoked behind the caller's
// back: the next in the queue waits for the key only.
func (b *Backend) Release(ctx context.Context, c lockclient.Claim) error {
	r := c.Ref.(ref)
	resp, err := b.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(r.key), "=", r.rev)).
		Then(clientv3.OpDelete(r.key)).
		Commit()
	if err != nil {
		return sorted(ctx, err)
	}
	b.revoke(r.lease)
	if !resp.Succeeded {
		return lockclient.ErrLost
	}
	return nil
}
