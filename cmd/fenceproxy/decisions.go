package main

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

var verdicts = [...]string{relay.VerdictGuarded: "guarded", relay.VerdictHeld: "held", relay.VerdictRejected: "rejected",
	relay.VerdictWouldReject: "would be rejected"}

// Deciding implements relay.Decider.
func (r *recorder) Deciding() bool {
	wanted, _ := r.decisions.Wanted()
	return wanted
}

// Decided implements relay.Decider: a line of the decision log.
func (r *recorder) Decided(d relay.Decision) {
	rejected := d.Verdict == relay.VerdictRejected || d.Verdict == relay.VerdictWouldReject
	if wanted, all := r.decisions.Wanted(); !wanted || !all && !rejected {
		return
	}
	fields := make([]zap.Field, 0, 10)
	fields = append(fields, zap.String("verdict", verdicts[d.Verdict]))
	if rejected {
		fields = append(fields, zap.String("code", d.Code), zap.String("by", rejectedBy[d.By]))
	}
	fields = append(fields, zap.Strings("fences", d.Fences), zap.String("token", tokenText(d.Token)))
	if d.Shape != 0 {
		fields = append(fields, zap.String("shape", fmt.Sprintf("%016x", d.Shape)))
	}
	r.decisions.Log(append(fields, zap.String("user", d.About.User), zap.String("database", d.About.Database),
		zap.String("application", d.About.Application), zap.String("remote", d.About.Remote)))
}

// tokenText is a session's token, which its client may have written: only if it is one.
func tokenText(raw string) string {
	if _, err := tokens.Parse(raw); err != nil {
		return "malformed"
	}
	return raw
}
