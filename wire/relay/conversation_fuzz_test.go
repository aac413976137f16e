package relay

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// choices is a source of random numbers whose upper bits are the fuzzer's: each of its bytes is one choice of script and
// modelRun, and when they are used up chance goes on.
type choices struct {
	bytes []byte
	rest  *rand.PCG
}

func (c *choices) Uint64() uint64 {
	n := c.rest.Uint64()
	if len(c.bytes) > 0 {
		n = n>>8 | uint64(c.bytes[0])<<56
		c.bytes = c.bytes[1:]
	}
	return n
}

// FuzzConversations is TestModelConversations with the fuzzer's choices in place of chance: legal conversations, whose replies
// stay in step with those of the model server.
func FuzzConversations(f *testing.F) {
	for seed := range uint64(20) {
		chance := rand.NewPCG(seed, 3)
		steps := make([]byte, 200+seed%4)
		for i := range steps {
			steps[i] = byte(chance.Uint64())
		}
		f.Add(steps)
	}
	var cfgs []*Config
	rules := []rowRules{{}, {column: true}, {column: true, rewrite: true}, {column: true, rewrite: true, named: true}}
	for _, r := range rules {
		cfgs = append(cfgs, r.config(f))
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		r := rand.New(&choices{bytes: steps, rest: rand.NewPCG(uint64(len(steps)), 4)})
		kind := len(steps) % len(rules)
		msgs := script(r)
		if !modelRun(t, cfgs[kind], rules[kind], r, msgs, map[string]int{}) {
			t.Fatal(strings.Join(msgs, "\n  "))
		}
	})
}
