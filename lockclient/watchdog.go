package lockclient

import (
	"context"
	"fmt"
	"os"
	"time"
)

func exitWatchdog(reason string) {
	fmt.Fprintln(os.Stderr, "lockclient: watchdog ends the process:", reason)
	os.Exit(ExitLost)
}

// stuck is called when a renewal, which ends after 2/5 of the TTL, did not come back after half of it.
func (k *keeper) stuck() { k.cfg.watchdog(fmt.Sprintf("lock %q: renewal does not answer", k.name)) }

// watchProcess ends the process when this goroutine did not run for half a TTL.
func (k *keeper) watchProcess(ctx context.Context) {
	patience := k.ttl() / 2
	tick := time.NewTicker(patience / 4)
	defer tick.Stop()
	for last := k.clock.read(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := k.clock.read()
		if d := last.elapsed(now); d >= patience {
			k.cfg.watchdog(fmt.Sprintf("lock %q: the process did not run for %v", k.name, d))
		}
		last = now
	}
}

// exitUnless ends the process d after a loss unless the lease was released meanwhile, which says that its work is over.
func exitUnless(over <-chan struct{}, d time.Duration, exit func(int)) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
		exit(ExitLost)
	}
}
