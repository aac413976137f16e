package relay

import "github.com/fenceproxy/fenceproxy/rewrite"

// GuardForm is how a guard was carried out.
type GuardForm uint8

const (
	GuardFast     GuardForm = iota // the proxy's parse of the token, compared with the raw setting by the database
	GuardSlow                      // the database parses the setting
	GuardSession                   // all fences of the session, before an opaque statement
	GuardReadOnly                  // the same, which makes the transaction of a session without a token read-only
	GuardSkipped                   // confirmed earlier in the same transaction
)

// By says who refused a statement.
type By uint8

const (
	ByDatabase By = iota // a guard failed in PostgreSQL
	ByProxy              // refused from the text or from memory
	ByRow                // the statement itself failed at a row, or had no token for its rows: no word about the fence's mark
	ByShadow             // observe mode: would have been refused
)

// Recorder counts what a session does. Calls must be cheap, must not block, and may come from any goroutine.
type Recorder interface {
	Statement(verb string, effect rewrite.Effect, fenced bool)
	Guard(form GuardForm)
	Rejected(code, fence string, by By)
	Bytes(toServer, toClient int)
}

// discard is the Recorder of a session that nobody counts.
type discard struct{}

func (discard) Statement(string, rewrite.Effect, bool) {}
func (discard) Guard(GuardForm)                        {}
func (discard) Rejected(string, string, By)            {}
func (discard) Bytes(int, int)                         {}
