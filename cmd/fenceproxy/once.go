package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/robfig/cron/v3"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/postgres"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// onceFlags have a command run once in each slot of time, on however many nodes it is started. A lock alone does not do
// that: the second node would begin as soon as the first has finished.
type onceFlags struct {
	per   string
	retry bool
	dsn   string
	slot  string // what per means now
}

func (f *onceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.per, "once-per", "", "run once in each `SLOT`: @daily, '@every 5m', a cron expression, or key=TEXT for one run ever")
	cmd.Flags().BoolVar(&f.retry, "retry", false, "with --once-per: run again what failed, or was lost with its node")
	cmd.Flags().StringVar(&f.dsn, "dsn", "", "with --once-per: database whose fence schema records the slots (default: that of a postgres:// backend)")
}

func (f *onceFlags) check(cmd *cobra.Command, backend string) error {
	if f.per == "" {
		if f.retry || f.dsn != "" {
			return usageError(cmd, errors.New("--retry and --dsn belong to --once-per"))
		}
		return nil
	}
	var err error
	// By this node's clock: the schedule that has started us ran by it too, so the slot is that one, whatever other clocks say.
	if f.slot, err = slotName(f.per, time.Now()); err != nil {
		return usageError(cmd, fmt.Errorf("--once-per: %w", err))
	}
	if f.dsn == "" {
		if f.dsn, err = postgres.DSN(backend); err != nil {
			return usageError(cmd, errors.New("--dsn is missing: --once-per records its slots in a database, and --backend is none"))
		}
	}
	if _, err := pgx.ParseConfig(f.dsn); err != nil {
		return usageError(cmd, errors.New("--dsn is not a DSN of PostgreSQL"))
	}
	return nil
}

const slotTime = "2006-01-02T15:04:05Z"

// slotName is the slot of a schedule that now falls into, by the UTC time of its beginning, or the key itself.
func slotName(per string, now time.Time) (string, error) {
	if key, ok := strings.CutPrefix(per, "key="); ok {
		if key == "" || len(key) > 200 || !utf8.ValidString(key) {
			return "", errors.New("a key has 1 to 200 bytes of UTF-8")
		}
		return per, nil
	}
	schedule, err := cron.ParseStandard(per)
	if err != nil {
		return "", fmt.Errorf("%q is neither a schedule nor key=TEXT: %w", per, err)
	}
	begin := now
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
		begin = now.Truncate(every.Delay)
	} else if begin, ok = latest(schedule, now); !ok {
		return "", fmt.Errorf("%q has not come up within five years", per)
	}
	return per + " " + begin.UTC().Format(slotTime), nil
}

// latest is the last time up to now that the schedule came up.
func latest(s cron.Schedule, now time.Time) (time.Time, bool) {
	for back := time.Minute; back < 5*366*24*time.Hour; back *= 2 {
		t := s.Next(now.Add(-back))
		if t.IsZero() || t.After(now) {
			continue
		}
		for next := s.Next(t); !next.IsZero() && !next.After(now); next = s.Next(t) {
			t = next
		}
		return t, true
	}
	return time.Time{}, false
}

const (
	slotLimit = 10 * time.Second // for one exchange with the database
	slotPause = 200 * time.Millisecond
)

// database calls do with a connection of its own: a job may take hours, and a connection that long is one more to lose.
func (f *onceFlags) database(do func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), slotLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, f.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return do(ctx, conn)
}

// begin records that the slot is run under the lease. run is false when the slot needs no run; that is told on w. The
// error is an exit.
func (f *onceFlags) begin(lease *lockclient.Lease, w io.Writer) (run bool, err error) {
	var state tokens.SlotState
	var known tokens.Slot
	fence := lease.Fence()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	holder := fmt.Sprintf("%s, process %d", host, os.Getpid())
	err = f.database(func(ctx context.Context, conn *pgx.Conn) (err error) {
		run, state, known, err = tokens.BeginSlot(ctx, conn, fence.Lock, f.slot, fence.Token, holder, f.retry)
		return err
	})
	switch {
	case err != nil:
		return false, &exit{exitNotAcquired, fmt.Errorf("slot %q cannot be recorded, so the command is not run: %w", f.slot, err)}
	case run:
		return true, nil
	case state == tokens.SlotStale:
		return false, &exit{exitLost, fmt.Errorf("lock %q is another's: token %s is stale", fence.Lock, fence.Token)}
	}
	fmt.Fprintln(w, "fenceproxy:", described(f.slot, known))
	return false, nil
}

// described says what became of a slot.
func described(name string, s tokens.Slot) string {
	by := fmt.Sprintf("by %s under token %s, begun %s", s.Holder, s.Token, s.StartedAt.UTC().Format(time.RFC3339))
	switch s.State {
	case tokens.SlotDone:
		return fmt.Sprintf("slot %q was run %s, done %s", name, by, s.EndedAt.UTC().Format(time.RFC3339))
	case tokens.SlotFailed:
		return fmt.Sprintf("slot %q was run %s, and failed with exit code %d; --retry would run it again", name, by, s.ExitCode)
	}
	return fmt.Sprintf("slot %q was begun %s, and lost with its node; --retry would run it again", name, by)
}

// end records the exit code. A slot that is another's by now needs no record of ours. A database that is away may come back
// while the lock is held: without the record the work would be done twice.
func (f *onceFlags) end(lease *lockclient.Lease, code int) error {
	fence := lease.Fence()
	over := time.Now().Add(slotLimit)
	for {
		err := f.database(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := tokens.EndSlot(ctx, conn, fence.Lock, f.slot, fence.Token, code)
			return err
		})
		if err == nil || lease.Check() != nil || time.Now().After(over) {
			return err
		}
		time.Sleep(slotPause)
	}
}
