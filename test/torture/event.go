package torture

import (
	"golang.org/x/sys/unix"
)

// Event is what a worker did and was told; workers write them as JSON lines.
type Event struct {
	From, To int64 // now()
	Who      string
	Fence    string
	Token    string
	Op       Op
	Outcome  Outcome
	Code     string // SQLSTATE
	Shape    string // how it was done, or what went wrong
	Tx       int64  // id in the rows that it wrote
	El, Prev int64  // of the chain: written and expected before it; of a read: El
}

type Op string

const (
	Raise Op = "raise" // the token was presented, or the lock granted
	Read  Op = "read"
	Write Op = "write"
	Held  Op = "held"  // held back by itself, at a step
	Ended Op = "ended" // the tenure
)

// Outcome of an operation, for its caller.
type Outcome string

const (
	Done    Outcome = "ok"
	Refused Outcome = "refused" // ZF...: it has certainly not happened
	Failed  Outcome = "failed"  // another error: it has certainly not happened
	Unknown Outcome = "unknown" // the connection was lost and it may have happened
)

// unsure: a raise outlives the session that asked for it, so only being stale is certain.
func (e *Event) unsure() {
	if e.Outcome == Failed || e.Outcome == Refused && e.Code != "ZF001" {
		e.Outcome = Unknown
	}
}

// now is one clock for all processes, in nanoseconds. It does not jump.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
