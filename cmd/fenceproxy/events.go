package main

import (
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/logging"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/metrics"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// takeovers counts what control connections do. They log each raise and each backend ended themselves; what is told
// again and again is logged here, within bounds.
type takeovers struct {
	*metrics.Metrics
	log   *zap.Logger
	flood *logging.Flood
}

var _ tokens.ControlEvents = (*takeovers)(nil)

func (t *takeovers) RaiseWaiting(db, fence string, waited time.Duration, blockers int) {
	t.Metrics.RaiseWaiting(db, fence, waited, blockers)
	if write, _ := t.flood.Allow("waiting " + db + " " + fence); write {
		t.log.Warn("a takeover waits for other sessions", zap.String("fence", fence), zap.String("database", db),
			zap.Duration("waited", waited), zap.Int("blockers", blockers))
	}
}

// recorder counts what a session does, and logs what is refused.
type recorder struct {
	*metrics.Recorder
	metrics *metrics.Metrics
	log     *zap.Logger // with the session's fields
	flood   *logging.Flood

	decisions *logging.Decisions
}

var (
	_ relay.Recorder = (*recorder)(nil)
	_ relay.Decider  = (*recorder)(nil)
)

// ForSession is the recorder of one session; log carries the session's fields.
func (r *recorder) ForSession(log *zap.Logger) relay.Recorder {
	own := *r
	own.log = log
	return &own
}

// The words are those of the metric (docs/metrics.md).
var rejectedBy = [relay.ByShadow + 1]string{relay.ByDatabase: "database", relay.ByProxy: "proxy", relay.ByRow: "row", relay.ByShadow: "shadow"}

func (r *recorder) Rejected(code, fence string, by relay.By) {
	r.Recorder.Rejected(code, fence, by)
	write, suppressed := r.flood.Allow("rejected " + fence + " " + code)
	if !write {
		r.metrics.Suppressed(1)
		return
	}
	message := "rejected"
	if by == relay.ByShadow {
		message = "would be rejected in mode enforce"
	}
	fields := []zap.Field{zap.String("code", code), zap.String("fence", fence), zap.String("by", rejectedBy[by])}
	if suppressed > 0 {
		fields = append(fields, zap.Int("suppressed", suppressed))
	}
	r.log.Warn(message, fields...)
}
