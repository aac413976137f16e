package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/pgfence"
)

// Worker works one job after the other.
type Worker struct {
	Locks *lockclient.Client
	DSN   string // through the proxy
	Slots int    // how many workers may work at a time
	Work  func(ctx context.Context, id int64, payload string) (answer string)
	Told  func(format string, args ...any)
}

const idle = 20 * time.Millisecond // between looks into an empty inbox

// Run works until ctx ends. Without a slot it waits for one to become free: a worker more than there are slots takes over
// from whoever dies.
func (w *Worker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		for _, i := range rand.Perm(w.Slots) {
			slot := i + 1
			lease, err := w.Locks.TryLock(ctx, fmt.Sprintf("jobs/%d", slot))
			if errors.Is(err, lockclient.ErrHeld) || errors.Is(err, lockclient.ErrUnavailable) {
				continue
			}
			if err != nil {
				return err
			}
			w.Told("slot %d token %s", slot, lease.Fence().Token)
			err = w.tenure(lease, slot)
			lease.Release(ctx)
			w.Told("left %d: %v", slot, err)
		}
		pause(ctx, 5*idle)
	}
	return nil
}

// tenure works in a session that belongs to this holding of the slot: its token is in the startup packet.
func (w *Worker) tenure(lease *lockclient.Lease, slot int) error {
	ctx := lease.Context()
	config, err := pgx.ParseConfig(w.DSN)
	if err != nil {
		return err
	}
	params, err := pgfence.RuntimeParams(lease)
	if err != nil {
		return err
	}
	for name, value := range params {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	sql := queriesOf(slot)
	// What the earlier holder of the slot has left: nobody else may touch it, and that one cannot any more.
	for more := true; more && err == nil; {
		more, err = w.one(ctx, conn, sql.resume, sql.complete)
	}
	for err == nil && ctx.Err() == nil {
		var found bool
		if found, err = w.one(ctx, conn, sql.claim, sql.complete); err == nil && !found {
			pause(ctx, idle)
		}
	}
	return err
}

// one takes a job by take and completes it. The context of the lease stops the work in time, as a rule; that the end of a
// job is written without it is what a program does that knows no contexts, and the fence is there for it.
func (w *Worker) one(ctx context.Context, conn *pgx.Conn, take, complete string) (found bool, err error) {
	var id int64
	var payload string
	err = conn.QueryRow(ctx, take).Scan(&id, &payload)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	answer := w.Work(ctx, id, payload)
	if _, err := conn.Exec(context.WithoutCancel(ctx), complete, id, answer); err != nil {
		return false, fmt.Errorf("job %d not completed: %w", id, err)
	}
	return true, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
