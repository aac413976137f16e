package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// Wait stands in the queue. What it returns is always decided by one linearizable read of both the own key and the one
// before it; watches only say when to read again, so a watch that breaks, is compacted away or lies costs a read.
func (b *Backend) Wait(ctx context.Context, c lockclient.Claim) (lockclient.Claim, error) {
	r := c.Ref.(ref)
	for failures := 0; ; {
		before, at, term, err := b.before(ctx, c, r)
		switch {
		case err == nil && before == "":
			won := c
			won.Held, won.Token = true, r.token()
			if last := r.term.Load(); last == 0 || last == term {
				return won, nil
			}
			// The last renewal was answered in another term, by a deposed leader perhaps: prove one.
			if won.Since, won.TTL, err = b.renewNow(ctx, won); err == nil || !errors.Is(err, lockclient.ErrUnavailable) {
				return won, err
			}
		case err == nil:
			if b.watchGone(ctx, at, c.TTL, r.key, before) == nil {
				failures = 0
				continue
			}
		case ctx.Err() == nil && !passing(err):
			return c, err
		}
		if failures++; pause(ctx, failures) != nil {
			return c, ctx.Err()
		}
	}
}

// before returns the key that the claim waits for, "" when there is none, and the revision and term of that truth. ErrLost when
// the claim's own key is gone: a lease that has expired must not become an owner when its predecessors leave.
func (b *Backend) before(ctx context.Context, c lockclient.Claim, r ref) (key string, at int64, term uint64, err error) {
	resp, err := b.client.Txn(ctx).Then(
		clientv3.OpGet(r.key, clientv3.WithKeysOnly()),
		clientv3.OpGet(b.layout.rivals(c.Name, c.Mode), append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(r.rev-1), clientv3.WithKeysOnly())...),
	).Commit()
	if err != nil {
		return "", 0, 0, err
	}
	if own := resp.Responses[0].GetResponseRange().Kvs; len(own) == 0 || own[0].CreateRevision != r.rev {
		return "", 0, 0, lockclient.ErrLost
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		key = string(kvs[0].Key)
	}
	return key, resp.Header.Revision, resp.Header.RaftTerm, nil
}

// WatchLoss returns when the own key of a held claim is gone.
func (b *Backend) WatchLoss(ctx context.Context, c lockclient.Claim) error {
	r := c.Ref.(ref)
	at := r.rev // its own revision: whatever became of the key comes later
	for failures := 1; ; failures++ {
		b.watchGone(ctx, at, 0, r.key) // whatever it says, the key decides
		var err error
		if at, _, err = b.exists(ctx, r); err != nil {
			return err
		}
		if pause(ctx, failures) != nil {
			return ctx.Err()
		}
	}
}

// exists returns the revision and term at which the claim's key was there; ErrLost when it is not.
func (b *Backend) exists(ctx context.Context, r ref) (at int64, term uint64, err error) {
	resp, err := b.client.Get(ctx, r.key, clientv3.WithKeysOnly())
	if err != nil {
		return 0, 0, err
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != r.rev {
		return 0, 0, lockclient.ErrLost
	}
	return resp.Header.Revision, resp.Header.RaftTerm, nil
}

// watchGone waits until one of keys was deleted after revision at, or it is time to look anyway: a few TTLs, in case the
// watch died without a word. An error says that it cannot watch: compacted, cancelled, a member without a leader.
func (b *Backend) watchGone(ctx context.Context, at int64, ttl time.Duration, keys ...string) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	var look <-chan time.Time
	if ttl > 0 {
		t := time.NewTimer(max(3*ttl, 15*time.Second) + rand.N(ttl))
		defer t.Stop()
		look = t.C
	}
	options := []clientv3.OpOption{clientv3.WithRev(at + 1), clientv3.WithFilterPut()}
	first := b.client.Watch(ctx, keys[0], options...)
	var second clientv3.WatchChan
	if len(keys) > 1 {
		second = b.client.Watch(ctx, keys[1], options...)
	}
	for {
		var resp clientv3.WatchResponse
		var open bool
		select {
		case resp, open = <-first:
		case resp, open = <-second:
		case <-look:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case len(resp.Events) > 0:
			return nil
		case resp.Err() != nil:
			return resp.Err()
		case !open:
			return errUnclear
		}
	}
}

// pause before looking again after failures in a row: 10 ms to 1 s, at random.
func pause(ctx context.Context, failures int) error {
	most := min(20*time.Millisecond<<min(failures, 6), time.Second)
	t := time.NewTimer(most/2 + rand.N(most/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
