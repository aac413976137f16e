package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A Bind whose names do not end is an error once more of it has come than names may be long, not a buffer that grows.
// Mutant: take all of it in assembleFromClient.
func TestBindWithEndlessNamesIsRefused(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	header := []byte{'B', 0x3f, 0, 0, 0}
	in := append(header, strings.Repeat("x", 4<<10)...)
	var err error
	for sent := 0; err == nil && sent < 1<<20; sent += len(in) {
		c.out.Reset()
		_, err = c.e.FromClient(in, &c.out)
		in = []byte(strings.Repeat("x", 4<<10))
	}
	if err == nil || len(c.e.client.held) > 2*maxNames {
		t.Errorf("error %v, %d bytes held", err, len(c.e.client.held))
	}
}

// Names that stand for nothing are dropped: a session may use a new one each time. Mutants: no tidy for
// the statement of a Close, or of a Parse that failed.
func TestNamesAreForgotten(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	for i := range 50 {
		s, p := fmt.Sprintf("s%d", i), fmt.Sprintf("p%d", i)
		c.client("P "+s+"|"+readSQL, "B "+p+"|"+s, "C P|"+p, "C S|"+s, "S")
		c.server("1", "2", "3", "3", "Z I")
		c.client("P f"+s+"|"+readSQL, "B f"+p+"|f"+s, "S")
		c.server("E 42601", "Z I")
		c.client("P |"+readSQL, "B open"+p+"|", "S")
		c.server("1", "2", "Z I")
	}
	if s, p := len(c.e.names.statements), len(c.e.names.portals); s != 0 || p != 0 {
		t.Errorf("%d statements and %d portals are remembered", s, p)
	}
}

// Beyond maxInDoubt a name may stand for anything: neither does the verdict grow with each pending definition, nor the
// time to find it. Mutant: neither bound in possible.
func TestDefinitionsInDoubtAreBounded(t *testing.T) {
	c := newTalk(t, testConfig(t), "34")
	const many = 4000
	began := time.Now()
	for i := range many {
		c.client(fmt.Sprintf("P w|SELECT %d FROM t%d", i, i), "B |w", "S", "E nope", "S")
	}
	if v := c.e.possibleStatement([]byte("w")); len(v.more) > maxInDoubt+1 || v.plain() {
		t.Errorf("%d plans, plain %v", 1+len(v.more), v.plain())
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	same(t, "EXECUTE may be anything", c.client("B |w", "E", "S"), "B guard E S")
}
