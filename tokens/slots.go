package tokens

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Slot is one run of a job that is to run once, however many nodes are told to run it.
type Slot struct {
	Lock, Name string
	State      SlotState
	Token      Token // of the lock, when the run began
	Holder     string
	Attempts   int // 1 for the first run
	StartedAt  time.Time
	EndedAt    time.Time // zero while it runs, or was lost
	ExitCode   int
}

// SlotState is where a run stands.
type SlotState string

const (
	SlotRunning SlotState = "running" // or lost: whoever holds the lock now knows that nobody runs it
	SlotDone    SlotState = "done"
	SlotFailed  SlotState = "failed"
	SlotStale   SlotState = "stale" // only told by BeginSlot: a higher token of the lock is known
)

// BeginSlot records that the holder of lock, under t, begins the slot. run is false when it must not: state tells why,
// and found the run that was there before (zero when there was none). With again, a run that failed or was lost is
// repeated. conn's role is a member of fence_control; conn is not in a transaction, and what is told is durable.
func BeginSlot(ctx context.Context, conn *pgx.Conn, lock, slot string, t Token, holder string, again bool) (run bool, state SlotState, found Slot, err error) {
	var verdict string
	found = Slot{Lock: lock, Name: slot}
	var ended *time.Time
	row := conn.QueryRow(ctx, `SELECT b.verdict, coalesce((b.known).state, ''), coalesce((b.known).epoch, 0), coalesce((b.known).token, 0),
coalesce((b.known).holder, ''), coalesce((b.known).attempts, 0), coalesce((b.known).started_at, 'epoch'), (b.known).ended_at, coalesce((b.known).exit_code, 0)
FROM fence.slot_begin($1::text, $2::text, $3::int8, $4::int8, $5::text, $6::bool) AS b`, lock, slot, t.Epoch, t.Counter, holder, again)
	err = row.Scan(&verdict, &found.State, &found.Token.Epoch, &found.Token.Counter, &found.Holder, &found.Attempts, &found.StartedAt, &ended, &found.ExitCode)
	if err != nil {
		return false, "", Slot{}, err
	}
	if ended != nil {
		found.EndedAt = *ended
	}
	return verdict == "run", SlotState(verdict), found, nil
}

// EndSlot records how the run under t has ended: done for exit code 0, else failed. false: the slot is not t's any more.
func EndSlot(ctx context.Context, conn *pgx.Conn, lock, slot string, t Token, exitCode int) (ours bool, err error) {
	err = conn.QueryRow(ctx, "SELECT fence.slot_end($1::text, $2::text, $3::int8, $4::int8, $5::int4)", lock, slot, t.Epoch, t.Counter, exitCode).Scan(&ours)
	return ours, err
}
