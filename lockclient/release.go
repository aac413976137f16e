package lockclient

import (
	"context"
	"errors"
	"time"
)

// mostLeaving bounds how long leaving a queue may take.
const mostLeaving = time.Second

// release joins the renewer of an ended claim and gives the claim up. ErrLost when the first answer says that it was
// gone; after a failed attempt gone is as good as released, for that attempt may have done it.
func (k *keeper) release(ctx context.Context) error {
	k.mu.Lock()
	claim, limit := k.claim, k.cfg.release
	if !k.isHeld { // a place in the queue: whoever gave up waiting does not want to wait for this
		limit = min(limit, mostLeaving)
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if k.joined != nil {
		select {
		case <-k.joined:
		case <-ctx.Done(): // a backend or a hook that does not return: release all the same
		}
	}
	for n, pause := 0, 10*time.Millisecond; ; n, pause = n+1, min(2*pause, time.Second) {
		attempt, cancel := context.WithTimeout(ctx, limit/3)
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
