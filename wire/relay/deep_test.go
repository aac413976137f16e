package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/wire"
)

// The replies to a deep pipeline take time in proportion to it: an event loop has other sessions. Mutant: settle moves all
// pending definitions up.
func TestRepliesToADeepPipelineTakeLinearTime(t *testing.T) {
	fastest := func(statements int) time.Duration {
		best := time.Hour
		for range 3 {
			c := newTalk(t, testConfig(t), "")
			var in, replies []byte
			answer := append(append(backend("1"), backend("2")...), backend("C SELECT 1")...)
			for range statements {
				in = wire.AppendExecute(wire.AppendBind(wire.AppendParse(in, "", "SELECT 1"), "", ""), "")
				replies = append(replies, answer...)
			}
			var out Output
			if n, err := c.e.FromClient(in, &out); n != len(in) || err != nil {
				t.Fatal(n, err)
			}
			out.Reset()
			begin := time.Now()
			if err := c.e.FromServer(replies, &out); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(begin))
			if c.e.slots.n != 0 || !c.e.names.unnamedS.settled() {
				t.Fatal("not all is answered")
			}
		}
		return best
	}
	few, many := fastest(1000), fastest(16000)
	t.Logf("1000: %v, 16000: %v", few, many)
	if many > 80*few {
		t.Errorf("16 times as many replies took %d times as long", many/few)
	}
}

// What a deep pipeline needs is given back when it is answered: a pool of connections may each have one now and then.
// Mutants: slots, definitions or queryRuns are kept whatever their size.
func TestRoomOfADeepPipelineIsGivenBack(t *testing.T) {
	c := newTalk(t, testConfig(t), "")
	const many = 4 * maxIdle
	var in, replies []byte
	for range many {
		in = wire.AppendExecute(wire.AppendBind(wire.AppendParse(in, "", "SELECT 1"), "", ""), "")
		replies = append(append(append(replies, backend("1")...), backend("2")...), backend("C SELECT 1")...)
	}
	in = wire.AppendQuery(wire.AppendSync(in), strings.Repeat("UPDATE acct SET a = 1;", many))
	var out Output
	if n, err := c.e.FromClient(in, &out); n != len(in) || err != nil {
		t.Fatal(n, err)
	}
	run := c.e.slots.at(c.e.slots.n - 1).query
	if len(c.e.slots.ring) < many || cap(c.e.names.unnamedS.pending.list) < many || cap(run.steps) < many {
		t.Fatalf("%d slots, %d definitions, %d steps: not deep", len(c.e.slots.ring), cap(c.e.names.unnamedS.pending.list), cap(run.steps))
	}
	replies = append(append(append(replies, backend("Z I")...), backend("E 42P01")...), backend("Z I")...)
	if err := c.e.FromServer(replies, &out); err != nil {
		t.Fatal(err)
	}
	if c.e.slots.n != 0 || len(c.e.slots.ring) > maxIdle {
		t.Errorf("%d slots, room for %d", c.e.slots.n, len(c.e.slots.ring))
	}
	if n, m := cap(c.e.names.unnamedS.pending.list), cap(c.e.names.unnamedP.pending.list); n > maxIdle || m > maxIdle {
		t.Errorf("room for %d and %d definitions", n, m)
	}
	for _, q := range c.e.runs.queries {
		if cap(q.steps) > maxPooled {
			t.Errorf("room for %d steps", cap(q.steps))
		}
	}
}
