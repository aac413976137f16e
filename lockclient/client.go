package lockclient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// Client takes locks from one backend. It may be used concurrently.
type Client struct {
	backend Backend
	caps    Capabilities
	cfg     config

	mu   sync.Mutex
	last map[string]tokens.Token // highest token of an exclusive tenure seen here, by lock
}

// New makes a Client. The options become the defaults of its locks; a bad one is reported by the first lock.
func New(b Backend, opts ...Option) *Client {
	c := &Client{backend: b, caps: b.Capabilities(), last: make(map[string]tokens.Token)}
	c.cfg = defaults(c.caps).with(opts)
	return c
}

func defaults(b Capabilities) config {
	return config{ttl: max(DefaultTTL, b.MinTTL), drift: DefaultDrift, release: DefaultRelease, holder: defaultHolder(), exit: os.Exit}
}

// Capabilities of the backend.
func (c *Client) Capabilities() Capabilities { return c.caps }

// Backend is what New was given or Open opened.
func (c *Client) Backend() Backend { return c.backend }

// Close closes the backend. Leases still held are not released: they end with their window.
func (c *Client) Close() error { return c.backend.Close() }

func (c *Client) config(opts []Option) config { return c.cfg.with(opts) }

func (cfg config) with(opts []Option) config {
	log := cfg.log
	for _, o := range opts {
		o(&cfg)
	}
	if cfg.log != nil && cfg.log != log {
		WithHooks(logHooks(cfg.log))(&cfg)
	}
	return cfg
}

func defaultHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%08x", host, os.Getpid(), rand.Uint32())
}

// Lock waits until it holds the named lock. The name follows the rules of fence names (tokens.ValidName).
//
// The lease's context derives from ctx, so a deadline on ctx ends the work too: WithWait bounds only the waiting. While
// the service is unavailable Lock keeps trying, until ctx or WithWait ends it; other errors it returns at once. Every error
// is ErrNotAcquired joined with the reason. Locks are not reentrant: a second Lock in one process waits like anybody,
// except through the lease's own context, where it is ErrNested.
func (c *Client) Lock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return c.acquire(ctx, Request{Name: name, Queue: true}, opts)
}

// TryLock is Lock without waiting: a lock that is held is a *HeldError, a service that is not available an error.
func (c *Client) TryLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return c.acquire(ctx, Request{Name: name}, opts)
}

// RLock is Lock for readers: any number of them, no writer. ErrNotShared when the backend cannot. A reader's token is of
// no use to fence writes.
func (c *Client) RLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return c.acquire(ctx, Request{Name: name, Mode: Shared, Queue: true}, opts)
}

// TryRLock is RLock without waiting.
func (c *Client) TryRLock(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return c.acquire(ctx, Request{Name: name, Mode: Shared}, opts)
}

// rise notes the token of a new exclusive tenure and reports whether it is higher than the last one, which it returns.
func (c *Client) rise(name string, t tokens.Token) (last tokens.Token, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, seen := c.last[name]
	if seen && t.Compare(last) <= 0 {
		return last, false
	}
	const most = 4096
	if !seen && len(c.last) >= most {
		for any := range c.last { // forgetting one only costs a check
			delete(c.last, any)
			break
		}
	}
	c.last[name] = t
	return last, true
}

// jitter is d shortened by up to half, so that clients do not act in step.
func jitter(d time.Duration) time.Duration { return d - time.Duration(rand.Float64()*float64(d)/2) }

// sleep waits for d or the end of ctx, which it returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
