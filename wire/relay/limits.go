package relay

import "sync/atomic"

// limit counts what is open and refuses more than max at a time.
type limit struct {
	max  atomic.Int64
	open atomic.Int64
}

func (l *limit) enter() bool {
	if l.open.Add(1) > l.max.Load() {
		l.open.Add(-1)
		return false
	}
	return true
}

func (l *limit) leave() { l.open.Add(-1) }

// Bounds that need no setting.
const (
	defaultMaxConnections = 1000
	maxCancels            = 64 // CancelRequests on their way to the server at a time
)

// maxStrangers bounds the connections that are no session (yet): logins in the making, cancels, refusals that linger.
// They pass the limit of sessions so that a cancel works and a refusal is told when the proxy is full.
func maxStrangers(sessions int) int64 { return int64(sessions) + 2*maxCancels }
