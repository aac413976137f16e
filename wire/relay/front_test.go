package relay

import (
	"strings"
	"testing"
)

// inFrontReplies are the server's answers to a guard in front of a Query.
var inFrontReplies = []string{"2", "D ", "C SELECT 1", "2", "D 34", "C SELECT 1"}

// newTalkInFront is a session of a server behind whose extended messages a Query commits, the guard's statements prepared.
func newTalkInFront(t *testing.T) *talk {
	t.Helper()
	c := newTalk(t, testConfig(t), "34")
	c.server("S server_version=15.18 (Debian 15.18-0+deb12u1)")
	same(t, "first", c.client("Q "+writeSQL), "guard Q("+writeSQL+")")
	same(t, "its replies", c.server(append(append([]string{"3", "1", "3", "1"}, inFrontReplies...), "C UPDATE 1", "Z I")...), "C Z(I)")
	return c
}

// I1. What comes behind a Query whose guard is not answered would be skipped with it. Mutant: no hold.
func TestI1NothingFollowsAQueryBehindAGuard(t *testing.T) {
	for _, next := range []string{"Q " + readSQL, "P |" + readSQL, "S", "H", "B |", "d 1", "Q " + strings.Repeat("x", 1<<25)} {
		c := newTalkInFront(t)
		same(t, "sent", c.client("Q "+writeSQL, next), "guard Q("+writeSQL+")")
		if c.out.Effect != EffectWait {
			t.Errorf("%.10s behind: effect %v, want a wait", next, c.out.Effect)
		}
		same(t, "guard passes", c.server(inFrontReplies...), "")
		if c.out.Effect != EffectNone {
			t.Errorf("%.10s behind, guard passed: effect %v, want none", next, c.out.Effect)
		}
		same(t, "the Query", c.server("C UPDATE 1", "Z I"), "C Z(I)")
		if c.out.Effect != EffectResume {
			t.Errorf("%.10s behind, answered: effect %v, want a resume", next, c.out.Effect)
		}
	}
	c := newTalkInFront(t)
	same(t, "Terminate does not wait", c.client("Q "+writeSQL, "X"), "guard Q("+writeSQL+") X")
}

// A guard that fails has the Query skipped: the engine's Sync ends that, and its ReadyForQuery is the Query's. Mutant: no
// Sync.
func TestQueryBehindAGuardThatFails(t *testing.T) {
	for _, k := range []struct {
		name    string
		replies []string
		want    string
	}{
		{"stale", []string{"2", "D ", "C SELECT 1", "2", "E ZF001"}, "E(ZF001)"},
		{"missing", []string{"2", "D ", "C SELECT 1", "2", "E ZF002"}, "E(ZF002)"},
		{"the mark has changed since the snapshot", []string{"2", "D ", "C SELECT 1", "2", "E 40001"}, "E(40001)"},
		{"lock timeout", []string{"2", "E 55P03"}, "E(ZF005)"},
		{"deallocated unseen", []string{"E 26000"}, "E(ZF005)"},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := newTalkInFront(t)
			c.client("Q " + writeSQL)
			same(t, "replies", c.server(k.replies...), k.want)
			same(t, "to the server", c.show(c.out.ToServer), "S")
			same(t, "ready", c.server("Z I"), "Z(I)")
			if c.e.slots.n != 0 || c.e.syncs != 0 || c.e.behindGuard {
				t.Errorf("left over: %d slots, %d syncs", c.e.slots.n, c.e.syncs)
			}
			if k.name == "deallocated unseen" {
				same(t, "prepared again", c.client("Q "+writeSQL), "guard Q("+writeSQL+")")
				same(t, "its replies", c.server(append(append([]string{"3", "1", "3", "1"}, inFrontReplies...), "C UPDATE 1", "Z I")...), "C Z(I)")
			}
		})
		t.Run(k.name+", with more behind", func(t *testing.T) {
			c := newTalkInFront(t)
			c.client("Q "+writeSQL, "Q "+readSQL)
			same(t, "replies", c.server(k.replies...), k.want)
			same(t, "to the server", c.show(c.out.ToServer), "S")
			same(t, "ready", c.server("Z I"), "Z(I)")
			if c.out.Effect != EffectResume {
				t.Errorf("effect %v, want a resume", c.out.Effect)
			}
		})
	}
	t.Run("the guard cannot be prepared", func(t *testing.T) {
		c := newTalk(t, testConfig(t), "34")
		c.server("S server_version=15.18")
		c.client("Q " + writeSQL)
		same(t, "replies", c.server("3", "1", "3", "E 42P01"), "E(ZF005)")
		same(t, "to the server", c.show(c.out.ToServer), "S")
		same(t, "ready", c.server("Z I"), "Z(I)")
	})
}

// A Query drops the unnamed statement, whether it fails or not. Mutant: no Close.
func TestSkippedQueryDropsTheUnnamedStatement(t *testing.T) {
	c := newTalkInFront(t)
	c.client("P |"+readSQL, "S")
	c.server("1", "Z I")
	same(t, "sent", c.client("Q "+writeSQL), "C guard Q("+writeSQL+")")
	same(t, "replies", c.server("3", "2", "D ", "C SELECT 1", "2", "E ZF001"), "E(ZF001)")
	c.server("Z I")
	same(t, "once", c.client("Q "+writeSQL), "guard Q("+writeSQL+")")
}

// In a block a guard in front of a Query is held like any other.
func TestI2GuardInFrontIsHeldInABlock(t *testing.T) {
	c := newTalkInFront(t)
	c.client("Q BEGIN")
	c.server("C BEGIN", "Z T")
	same(t, "first write", c.client("Q "+writeSQL), "guard Q("+writeSQL+")")
	c.server(append(append([]string{}, inFrontReplies...), "C UPDATE 1", "Z T")...)
	same(t, "second write", c.client("Q "+writeSQL), "Q("+writeSQL+")")
	c.server("C UPDATE 1", "Z T")
	c.client("Q ROLLBACK TO s")
	c.server("C ROLLBACK", "Z T")
	same(t, "after ROLLBACK TO", c.client("Q "+writeSQL), "guard Q("+writeSQL+")")
}

// Where the guard is part of the string: several statements, what may do more than write, and whenever something is under
// way that may fail, for then the guard would be skipped and the Query not. Mutants: each condition of maybeInFront.
func TestGuardInsideOfTheString(t *testing.T) {
	splice := simpleGuard
	for _, k := range []struct {
		name   string
		before []string // sent in front, not answered
		sql    string
		want   string
	}{
		{"several statements", nil, "SELECT 1; " + writeSQL, "Q(SELECT 1; " + splice + writeSQL + ")"},
		{"COPY", nil, "COPY acct FROM STDIN", "Q(" + splice + "COPY acct FROM STDIN)"},
		{"messages without a Sync", []string{"P x|SELECT 1"}, writeSQL, "P Q(" + splice + writeSQL + ")"},
		{"a Query", []string{"Q SELECT 1"}, writeSQL, "Q(SELECT 1) Q(" + splice + writeSQL + ")"},
		{"BEGIN", []string{"Q BEGIN"}, writeSQL, "Q(BEGIN) Q(" + splice + writeSQL + ")"},
	} {
		t.Run(k.name, func(t *testing.T) {
			c := newTalkInFront(t)
			same(t, "sent", c.client(append(k.before, "Q "+k.sql)...), k.want)
		})
	}
	t.Run("a server that goes on with the transaction", func(t *testing.T) {
		c := newTalk(t, testConfig(t), "34")
		c.server("S server_version=18beta1")
		c.prepare()
		same(t, "sent", c.client("Q "+writeSQL), "Q("+splice+writeSQL+")")
	})
	t.Run("a walsender, which has no extended protocol", func(t *testing.T) {
		cfg := testConfig(t)
		cfg.Walsender = true
		c := newTalk(t, cfg, "34")
		c.server("S server_version=15.18")
		if got := c.client("Q " + writeSQL); !strings.HasPrefix(got, "Q(SELECT fence.guard1(") {
			t.Errorf("sent: %s", got)
		}
	})
	t.Run("a server of unknown version", func(t *testing.T) {
		c := newTalk(t, testConfig(t), "34")
		c.server("S server_version=devel")
		c.prepare()
		same(t, "sent", c.client("Q "+writeSQL), "Q("+splice+writeSQL+")")
	})
}

// I1. From PostgreSQL 18 on a Query behind messages without a Sync leaves their transaction open, with ReadyForQuery 'T';
// the next Sync commits it, and the guard is gone. Mutant: take it for a block.
func TestI1TransactionOfAPipelineIsNoBlock(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	c.server("S server_version=18.1")
	c.prepare()
	c.client("P w|"+writeSQL, "S")
	c.server("1", "Z I")
	c.client("P |SELECT 1", "B |", "E", "H")
	c.server("1", "2", "D 1", "C SELECT 1")
	c.client("Q SELECT 2")
	c.server("T", "D 2", "C SELECT 1", "Z T")
	c.client("Q " + writeSQL)
	c.server(append(append([]string{}, simpleGuardReplies...), "C UPDATE 1", "Z T")...)
	same(t, "behind the Sync", c.client("S", "B |w", "E", "S"), "S B guard E S")
}
