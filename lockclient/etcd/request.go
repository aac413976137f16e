package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// Request puts a key of its own, bound to a lease of its own, at the end of the queue. Two round trips when the lock is
// free: grant a lease; put the key and look whether it is alone.
func (b *Backend) Request(ctx context.Context, req lockclient.Request) (lockclient.Claim, error) {
	if !req.Queue { // a lock that is held costs one read, not a lease
		if err := b.heldBy(ctx, req); err != nil {
			return lockclient.Claim{}, err
		}
	}
	sent := time.Now()
	lease, err := b.client.Grant(ctx, int64((req.TTL+time.Second-1)/time.Second))
	if err != nil {
		return lockclient.Claim{}, sorted(ctx, err)
	}
	claim, err := b.enqueue(ctx, req, lease.ID)
	if err != nil { // the outcome may be unknown: a key that was put all the same must not stand in the queue
		b.revoke(lease.ID)
		return lockclient.Claim{}, err
	}
	claim.Since, claim.TTL = sent, time.Duration(lease.TTL)*time.Second
	return claim, nil
}

func (b *Backend) enqueue(ctx context.Context, req lockclient.Request, id clientv3.LeaseID) (lockclient.Claim, error) {
	key, rivals := b.layout.key(req.Name, req.Mode, id), b.layout.rivals(req.Name, req.Mode)
	for {
		epoch := b.epoch.Load()
		value := entry{Holder: req.Holder, Epoch: epoch, Asked: time.Now().UTC()}.String()
		conditions := []clientv3.Cmp{b.epochIs(epoch)} // not that the key is new: its name is the fresh lease's
		if !req.Queue {                                // every key of an empty range has create revision 0
			conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(rivals), "=", 0).WithPrefix())
		}
		resp, err := b.client.Txn(ctx).If(conditions...).
			Then(clientv3.OpGet(rivals, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly()), // before the put: anybody else
				clientv3.OpPut(key, value, clientv3.WithLease(id))).
			Else(clientv3.OpGet(b.layout.epoch())).
			Commit()
		if errors.Is(err, rpctypes.ErrLeaseNotFound) { // granted, and expired on the way
			return lockclient.Claim{}, lockclient.ErrLost
		}
		if err != nil {
			return lockclient.Claim{}, sorted(ctx, err)
		}
		if resp.Succeeded {
			r := ref{key: key, rev: resp.Header.Revision, lease: id, epoch: epoch, term: new(atomic.Uint64)}
			c := lockclient.Claim{Name: req.Name, Mode: req.Mode, Held: len(resp.Responses[0].GetResponseRange().Kvs) == 0, Ref: r}
			if c.Held {
				c.Token = r.token()
			}
			return c, nil
		}
		if changed, err := b.sawEpoch(resp.Responses[0].GetResponseRange().Kvs); err != nil || changed {
			if err != nil {
				return lockclient.Claim{}, err
			}
			continue
		}
		if err := b.heldBy(ctx, req); err != nil {
			return lockclient.Claim{}, err
		}
	}
}

// heldBy is a *HeldError when the lock is held by somebody that the request would wait for.
func (b *Backend) heldBy(ctx context.Context, req lockclient.Request) error {
	resp, err := b.client.Get(ctx, b.layout.rivals(req.Name, req.Mode), clientv3.WithFirstCreate()...)
	if err != nil {
		return sorted(ctx, err)
	}
	if len(resp.Kvs) == 0 {
		return nil
	}
	held := &lockclient.HeldError{Lock: req.Name}
	if first := resp.Kvs[0]; b.layout.isWriter(req.Name, string(first.Key)) {
		held.Leader = leader(first)
	}
	return held
}

// revoke ends a lease, and its key with it, behind the caller's back. One that is not reached, or comes behind Close, ends
// with its TTL.
func (b *Backend) revoke(id clientv3.LeaseID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed { // a WaitGroup that is waited for must not grow
		return
	}
	b.behind.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), background)
		defer cancel()
		b.client.Revoke(ctx, id)
	})
}
