package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// WatchLoss hears of what becomes of a lease by the same notifications as an observer, and then asks: the lease is gone
// when the lock is not held under its token any more, and as good as gone when the fence's mark is above it, by an operator's
// hand or a bumped epoch, for nothing that presents the token is accepted then. Without notifications it looks from time
// to time only; renewal does the rest.
func (b *leases) WatchLoss(ctx context.Context, claim lockclient.Claim) error {
	watch := lockclient.Claim{Name: claim.Name, TTL: time.Second, Ref: newID()}
	defer b.abandon(watch)
	changed, stop := b.hub.watch(claim.Name)
	defer stop()
	for {
		a, err := b.ask(ctx, watchSQL, claim.Name, watch.Ref, watchFor.Milliseconds())
		if err != nil {
			return err
		}
		if a.state != "held" || a.token != claim.Token {
			return lockclient.ErrLost
		}
		var mark tokens.Token
		if err := b.db.row(ctx, b.db.ask, markSQL, []any{claim.Name}, &mark.Epoch, &mark.Counter); err != nil {
			return err
		}
		if mark.Compare(claim.Token) > 0 {
			return fmt.Errorf("%w: the mark of its fence was raised to %s", lockclient.ErrLost, mark)
		}
		timer := time.NewTimer(watchFor * 4 / 5)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// sessionLook is how often a session that holds a lock is looked at.
const sessionLook = 50 * time.Millisecond

// WatchLoss looks whether the server has closed the session, which nothing else tells before the next renewal: a lock
// that ends with a session is somebody else's at once. It sends nothing. Where the platform does not show it, renewal
// does.
func (b *advisory) WatchLoss(ctx context.Context, claim lockclient.Claim) error {
	s := claim.Ref.(*tenure).session
	conn := b.Connection(claim)
	tick := time.NewTicker(sessionLook)
	defer tick.Stop()
	for {
		if s.dead.Load() || conn != nil && hungUp(conn) {
			return fmt.Errorf("%w: its session has ended", lockclient.ErrLost)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
