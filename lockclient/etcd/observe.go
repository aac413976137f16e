package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// An observer reads again after observeLook without an event, and gives a read observeRead: the client waits without a word
// for a cluster that has gone, in watches and reads alike.
const (
	observeLook = 5 * time.Second
	observeRead = 3 * time.Second
)

// Observe reports the writer whose key is the oldest of all. Each state is read, not deduced from events, so compaction
// and lost watches cannot show a wrong holder (etcd #18163, #7815).
func (b *Backend) Observe(ctx context.Context, name string, yield func(lockclient.Leader) bool) error {
	var last lockclient.Leader
	failures := 0
	for first := true; ; {
		reading, cancel := context.WithTimeout(ctx, observeRead)
		resp, err := b.client.Get(reading, b.layout.all(name), clientv3.WithFirstCreate()...)
		cancel()
		if err != nil {
			return sorted(ctx, err)
		}
		var now lockclient.Leader
		var oldest string
		if len(resp.Kvs) > 0 {
			if oldest = string(resp.Kvs[0].Key); b.layout.isWriter(name, oldest) {
				now = leader(resp.Kvs[0])
			}
		}
		if now.Token != last.Token && !first && !now.Vacant() {
			now.Since = time.Now()
		}
		if now.Token != last.Token || first {
			if first, last = false, now; !yield(now) {
				return nil
			}
		}
		watching, cancel := context.WithTimeout(ctx, observeLook)
		if oldest != "" {
			err = b.watchGone(watching, resp.Header.Revision, 0, oldest)
		} else {
			err = b.watchPut(watching, resp.Header.Revision, b.layout.all(name))
		}
		timeout := watching.Err() != nil
		cancel()
		if err == nil || timeout && ctx.Err() == nil {
			failures = 0
		} else if failures++; pause(ctx, failures) != nil {
			return ctx.Err()
		}
	}
}

// watchPut waits until a key is put below prefix after revision at.
func (b *Backend) watchPut(ctx context.Context, at int64, prefix string) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range b.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(at+1), clientv3.WithFilterDelete()) {
		if err := resp.Err(); err != nil {
			return err
		}
		if len(resp.Events) > 0 {
			return nil
		}
	}
	return errUnclear
}
