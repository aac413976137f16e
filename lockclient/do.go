package lockclient

import (
	"context"
	"errors"
)

// Do runs f under the lock and releases it when f has returned, never before: the context given to f is cancelled when
// the lease is lost or ctx ends, and Do waits for f. A loss is in the error even when f returned nil, for its work may
// have overlapped with the next holder's; that the release failed is not, for the work is done and the lock ends with its
// TTL. A panic in f releases too.
func (c *Client) Do(ctx context.Context, name string, f func(context.Context, *Lease) error, opts ...Option) error {
	l, err := c.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	return l.run(ctx, f)
}

func (l *Lease) run(ctx context.Context, f func(context.Context, *Lease) error) (err error) {
	defer func() { // also when f panics or ends its goroutine
		l.Release(ctx)
		if e := l.Err(); errors.Is(e, ErrLost) && !errors.Is(err, ErrLost) {
			err = errors.Join(e, err)
		}
	}()
	return f(l.ctx, l)
}

// Campaign runs f whenever it is elected: it holds the lock while f runs, and stands again when the lock was lost. It
// returns f's error when f returns under a lock that is not lost, nil included, and ctx's error when that ends. As with
// Do, the lock is released after f has returned.
func (c *Client) Campaign(ctx context.Context, name string, f func(context.Context, *Lease) error, opts ...Option) error {
	cfg := c.config(opts)
	for {
		err := c.Do(ctx, name, f, opts...)
		if ctx.Err() != nil || !errors.Is(err, ErrLost) {
			return err
		}
		if e := sleep(ctx, jitter(cfg.ttl/10)); e != nil {
			return errors.Join(e, err)
		}
	}
}
