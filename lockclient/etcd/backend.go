package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// Backend keeps locks in an etcd cluster, below a prefix. Make it with New or lockclient.Open.
type Backend struct {
	client *clientv3.Client
	alive  *keepAlives
	owned  bool // client is closed with the Backend
	layout layout
	issuer string
	epoch  atomic.Int64 // as last seen; every request checks it

	mu     sync.Mutex // of closed, and of what begins
	closed bool
	behind sync.WaitGroup // revocations of leases whose locks are released
}

// background bounds work that nobody waits for.
const background = 5 * time.Second

// New makes a Backend on a client, which stays the caller's. Keys begin with prefix and a slash; "" is "fenceproxy/locks".
// It reads from the cluster once, so ctx should have a deadline.
func New(ctx context.Context, client *clientv3.Client, prefix string) (*Backend, error) {
	b := &Backend{client: client, alive: newKeepAlives(pb.NewLeaseClient(client.ActiveConnection())), layout: newLayout(prefix)}
	id, err := b.readEpoch(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(client.Endpoints(), ", "), err)
	}
	b.issuer = fmt.Sprintf("etcd/%x/%s", id, strings.TrimSuffix(b.layout.prefix, "/"))
	return b, nil
}

// Capabilities: strict tokens, first in first out, shared locks. etcd grants more than MinTTL when its election timeout
// asks for it: 1.5 election timeouts, in whole seconds.
func (b *Backend) Capabilities() lockclient.Capabilities {
	return lockclient.Capabilities{Issuer: b.issuer, Token: lockclient.Strict, FIFO: true, Shared: true, MinTTL: time.Second}
}

// Close waits for the revocations still under way, five seconds at most, and closes a client that Open made.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.behind.Wait()
	b.alive.end()
	if b.owned {
		return b.client.Close()
	}
	return nil
}
