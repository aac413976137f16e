package lockclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/tokens"
)

func (c *Client) acquire(ctx context.Context, req Request, opts []Option) (*Lease, error) {
	cfg := c.config(opts)
	req.TTL, req.Holder = cfg.ttl, cfg.holder
	if err := c.admit(ctx, req, &cfg); err != nil {
		return nil, errors.Join(ErrNotAcquired, err)
	}
	waiting := ctx
	if cfg.wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, cfg.wait)
		defer cancel()
	}
	began := time.Now()
	for pause := cfg.ttl / 100; ; pause = min(2*pause, cfg.ttl/3, time.Second) {
		k, err := c.attempt(waiting, req, &cfg)
		if err == nil {
			return newLease(ctx, c, k, time.Since(began)), nil
		}
		again := req.Queue && (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrLost))
		if again && waiting.Err() == nil {
			cfg.requeued(req.Name, err)
			again = sleep(waiting, jitter(pause)) == nil
		}
		if e := waiting.Err(); e != nil {
			return nil, errors.Join(ErrNotAcquired, e, without(err, e))
		}
		if !again {
			return nil, errors.Join(ErrNotAcquired, err)
		}
	}
}

// without is err unless it only repeats e.
func without(err, e error) error {
	if err == e {
		return nil
	}
	return err
}

// admit refuses what no backend should be asked.
func (c *Client) admit(ctx context.Context, req Request, cfg *config) error {
	if err := tokens.ValidName(req.Name); err != nil {
		return err
	}
	if req.Mode == Shared && !c.caps.Shared {
		return ErrNotShared
	}
	if err := cfg.check(c.caps); err != nil {
		return err
	}
	if nested(ctx, c.caps.Issuer, req.Name) {
		return fmt.Errorf("lock %q: %w", req.Name, ErrNested)
	}
	return ctx.Err()
}

// attempt asks once and waits in the queue. The keeper that it returns holds the lock.
func (c *Client) attempt(ctx context.Context, req Request, cfg *config) (*keeper, error) {
	clk := newClock(cfg.now, cfg.wall)
	sent := clk.read()
	asking, cancel := context.WithTimeout(ctx, cfg.ttl) // later than that the claim would be lost at birth
	claim, err := c.backend.Request(asking, req)
	cancel()
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = errors.Join(ErrUnavailable, err)
		}
		return nil, err
	}
	k := newKeeper(c.backend, cfg, clk, claim, sent)
	if !claim.Held {
		err = k.wait(ctx)
	}
	if err == nil {
		err = k.held(c.caps.Issuer)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && req.Mode == Exclusive {
		if last, ok := c.rise(req.Name, k.fence.Token); !ok {
			cfg.regressed(k.fence, last.String())
			if c.caps.Token == Strict {
				err = fmt.Errorf("%w: lock %q got %s after %s; the service has lost its history, raise its epoch", ErrRegressed, req.Name, k.fence.Token, last)
			}
		}
	}
	if err != nil {
		k.end(ErrReleased)
		k.release(ctx)
		return nil, err
	}
	return k, nil
}
