package relay

import (
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
