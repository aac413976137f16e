package torture

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

var (
	seedFlag   = flag.Uint64("torture.seed", 0, "seed of the run; 0 draws one")
	timeFlag   = flag.Duration("torture.time", time.Minute, "how long to go on")
	replay     = flag.Uint64("torture.replay", 0, "seed of one schedule: run it until it fails")
	serverFlag = flag.String("torture.server", "", "superuser's DSN (URL) of a server to use; it needs wal_level = logical. Nothing on it is stopped or crashed")
	htmlFlag   = flag.String("torture.html", "", "file for a timeline of the last schedule, the one with the violation if there is one")
	triesFlag  = flag.Int("torture.tries", 50, "how often to run it at most")
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	WorkerMain()
	pgtest.Main(m, proxytest.Cleanup)
}

// I1 to I4, against everything at once.
func TestTorture(t *testing.T) {
	seed := *seedFlag
	for seed == 0 {
		seed = uint64(rand.Uint32())
	}
	w := newWorld(t, 5, *serverFlag)
	w.timeline = *htmlFlag
	began := time.Now()
	sum := &Summary{Seed: seed}
	schedules := func(i int) (Schedule, bool) { return draw(derive(seed, i)), time.Since(began) < *timeFlag }
	if *replay != 0 {
		schedules = func(i int) (Schedule, bool) { return draw(*replay), i < *triesFlag }
	}
	for i := 0; ; i++ {
		s, more := schedules(i)
		if !more {
			break
		}
		if err := w.schedule(s, sum); err != nil {
			t.Fatalf("schedule %d (seed %d): %v", i, s.Seed, err)
		}
		if tried := sum.Committed + sum.Refused; tried > 500 && sum.Committed < tried/20 {
			fmt.Printf("first violation after %.1f s\n", time.Since(began).Seconds())
			t.Fatalf("of %d transactions only %d were committed: their holders are refused too", tried, sum.Committed)
		}
		if w.violated() {
			fmt.Printf("first violation after %.1f s, in schedule %d\n", time.Since(began).Seconds(), i+1)
			t.Errorf("schedule %d, try again: go test ./test/torture -count=1 -run TestTorture -torture.replay=%d", i, s.Seed)
			break
		}
	}
	for i := range w.proxies {
		w.countEvictions(i)
	}
	if sum.Committed < 20 || sum.Takeovers < 5 {
		t.Errorf("too little has happened: %d transactions, %d takeovers", sum.Committed, sum.Takeovers)
	}
	if *replay == 0 && sum.Committed > 2000 {
		for _, name := range shapes { // what is always refused is not tried
			if sum.Shapes[name] == 0 {
				t.Errorf("of %d committed transactions none was: %s", sum.Committed, name)
			}
		}
	}
	sum.Evictions, sum.Took = int(w.evictions), time.Since(began)
	fmt.Println(sum)
}
