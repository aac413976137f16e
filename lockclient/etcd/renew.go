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
//
// The read has a second use. A leader that was stopped while another was elected answers keep-alives from its own memory
// for a moment when it wakes, and nobody else hears of them. But it answers in its old term, and the read, which the real
// leader confirms, is of a newer one: such an answer renews nothing. (etcd's own check, ensureLeadership, is skipped when
// the member's clock has ticked since the wake.)
func (b *Backend) Renew(ctx context.Context, c lockclient.Claim) (time.Duration, error) {
	r := c.Ref.(ref)
	ttl, term, kept := b.alive.once(ctx, r.lease)
	if kept != nil && !errors.Is(kept, rpctypes.ErrLeaseNotFound) {
		return 0, sorted(ctx, kept)
	}
	if kept == nil && !c.Held { // Wait watches the key, and compares the term when the turn comes
		r.term.Store(term)
		return ttl, nil
	}
	_, now, err := b.exists(ctx, r)
	switch {
	case errors.Is(err, lockclient.ErrLost):
		return 0, err
	case err != nil:
		return 0, sorted(ctx, err)
	case kept != nil || now != term:
		return 0, sorted(ctx, errUnclear)
	}
	return ttl, nil
}

// renewNow is Renew with the time of sending, bounded so that a member that does not answer is left for another.
func (b *Backend) renewNow(ctx context.Context, c lockclient.Claim) (sent time.Time, ttl time.Duration, err error) {
	attempt, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	sent = time.Now()
	ttl, err = b.Renew(attempt, c)
	if attempt.Err() != nil && ctx.Err() == nil {
		err = errors.Join(lockclient.ErrUnavailable, err)
	}
	return sent, ttl, err
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
