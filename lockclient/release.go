package lockclient

import (
	"context"
	"errors"
	"time"
)

// release joins the renewer of an ended claim and gives the claim up. ErrLost when the first answer says that it was
// gone; after a failed attempt gone is as good as released, for that attempt may have done it.
func (k *keeper) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.cfg.release)
	defer cancel()
	if k.joined != nil {
		select {
		case <-k.joined:
		case <-ctx.Done(): // a backend or a hook that does not return: release all the same
		}
	}
	k.mu.Lock()
	claim := k.claim
	k.mu.Unlock()
	for n, pause := 0, 10*time.Millisecond; ; n, pause = n+1, min(2*pause, time.Second) {
		attempt, cancel := context.WithTimeout(ctx, k.cfg.release/3)
		err := k.backend.Release(attempt, claim)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrLost):
			if n > 0 {
				return nil
			}
			return err
		case ctx.Err() != nil || sleep(ctx, jitter(pause)) != nil:
			return err
		}
	}
}
