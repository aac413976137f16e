package relay

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/rewrite"
)

// rowRules say what the model's table acct wants of a write. The zero value: no row token, each write is guarded.
type rowRules struct {
	column  bool // it has a row token: each statement that can carry one must
	rewrite bool // on_stale: rewrite
	named   bool // the session's token has a name
}

func (r rowRules) config(t testing.TB) *Config {
	switch {
	case !r.column:
		return testConfig(t)
	case r.rewrite:
		return rowsConfig(t, rewrite.StaleRewrite, "billing", "tok")
	}
	return rowsConfig(t, rewrite.StaleReject, "billing", "tok")
}

func (r rowRules) token() string {
	if r.named {
		return "billing=34"
	}
	return "34"
}

// wantGuard: what an opaque statement has prepared is guarded by its EXECUTE's doubt, in any mode.
func (r rowRules) wantGuard(sql string) bool {
	creates := strings.HasPrefix(sql, "INSERT") || strings.HasPrefix(sql, "COPY")
	return !r.rewrite || r.named && creates || strings.Contains(sql, "evil")
}

// wantCheck: COPY carries its tokens in its data, and what a DO block has prepared was never seen.
func (r rowRules) wantCheck(sql string) bool {
	return r.column && !strings.HasPrefix(sql, "COPY") && !strings.Contains(sql, "evil")
}

// leavesAlone: the statement itself passes over rows of newer tokens.
func (r rowRules) leavesAlone(sql string) bool {
	return r.rewrite && !strings.Contains(sql, "evil") && !strings.Contains(sql, " other ")
}

const refusedText = "UPDATE acct SET tok = 3"

func isRefused(message string) bool { return strings.Contains(message, refusedText) }

// withRefused prepares what must not run under names that the conversation executes, and ways to reach them.
func withRefused(r *rand.Rand, msgs []string) []string {
	for range 1 + r.IntN(3) {
		add := [][]string{
			{"C S|w", "P w|" + refusedText, "S"}, {"P x|" + refusedText, "B p|x"}, {"P |" + refusedText, "B |", "E", "S"},
			{"C S|x", "P x|EXECUTE w", "B p|x", "E p"}, {"C S|r", "P r|EXECUTE x", "Q EXECUTE r"}, {"C S|r", "P r|FETCH ALL FROM p", "B q|r", "E q", "S"},
			{"Q PREPARE x AS " + refusedText}, {"Q SELECT 1; " + refusedText},
		}[r.IntN(8)]
		at := r.IntN(len(msgs))
		if amongData(msgs[:at]) || slices.ContainsFunc(msgs, func(m string) bool { return strings.Contains(m, "COPY") }) {
			at = 0
		}
		msgs = slices.Insert(msgs, at, add...)
	}
	return msgs
}
