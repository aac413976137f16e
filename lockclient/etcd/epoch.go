package etcd

import (
	"context"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// SetEpoch raises the epoch of all tokens given from now on. It is for an operator who has restored the cluster from a
// backup, or replaced it: revisions start lower then, and the fences' epoch was bumped to the same number. An epoch that
// is not higher is an error. Locks that are held keep their tokens; their holders must acquire again.
func (b *Backend) SetEpoch(ctx context.Context, epoch int64) error {
	for {
		if _, err := b.readEpoch(ctx); err != nil {
			return err
		}
		now := b.epoch.Load()
		if epoch <= now {
			return fmt.Errorf("epoch %d is not higher than %d", epoch, now)
		}
		resp, err := b.client.Txn(ctx).If(b.epochIs(now)).Then(clientv3.OpPut(b.layout.epoch(), strconv.FormatInt(epoch, 10))).Commit()
		if err != nil {
			return sorted(ctx, err)
		}
		if resp.Succeeded {
			b.epoch.Store(epoch)
			return nil
		}
	}
}

// epochIs holds while the epoch key says epoch.
func (b *Backend) epochIs(epoch int64) clientv3.Cmp {
	if epoch == 0 {
		return clientv3.Compare(clientv3.CreateRevision(b.layout.epoch()), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(b.layout.epoch()), "=", strconv.FormatInt(epoch, 10))
}

func (b *Backend) readEpoch(ctx context.Context) (cluster uint64, err error) {
	resp, err := b.client.Get(ctx, b.layout.epoch())
	if err != nil {
		return 0, sorted(ctx, err)
	}
	_, err = b.sawEpoch(resp.Kvs)
	return resp.Header.ClusterId, err
}

// sawEpoch takes in what the epoch key says and reports whether that is news.
func (b *Backend) sawEpoch(kvs []*mvccpb.KeyValue) (changed bool, err error) {
	var epoch int64
	if len(kvs) > 0 {
		text := string(kvs[0].Value)
		epoch, err = strconv.ParseInt(text, 10, 64)
		if err != nil || epoch <= 0 || strconv.FormatInt(epoch, 10) != text {
			return false, fmt.Errorf("key %s holds no epoch", b.layout.epoch())
		}
	}
	return b.epoch.Swap(epoch) != epoch, nil
}
