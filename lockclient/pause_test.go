package lockclient_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

// TestPauses: a process stops at any moment for any time. No timer fires meanwhile, so its context is alive when it wakes,
// but the first Check knows, whatever replies wait in its sockets. Mutants that turn it red: Check looks at the state
// only; a renewal's reply opens a window from the reply on.
func TestPauses(t *testing.T) {
	tried, taken := 0, 0
	for at := range 32 {
		for _, length := range []time.Duration{ttl / 5, ttl / 2, ttl * 7 / 10, ttl * 98 / 100, ttl, ttl * 3 / 2} {
			for _, fate := range []memory.Fate{{}, {Out: ttl / 5}, {Back: ttl / 5}, {Back: ttl * 2 / 5}, {LoseBack: true}} {
				for _, rate := range []float64{0.99, 1, 1.01} {
					synctest.Test(t, func(t *testing.T) {
						if playPause(t, ttl*time.Duration(at)/16, length, fate, rate) {
							taken++
						}
					})
					if tried++; t.Failed() {
						return
					}
				}
			}
		}
	}
	t.Logf("%d schedules with a pause; in %d the service had taken the lock away when the process woke", tried, taken)
}

// playPause stops a holder at a moment of its tenure, while messages have the fate given, and reports whether it had lost
// the lock when it woke.
func playPause(t *testing.T, at, length time.Duration, fate memory.Fate, rate float64) bool {
	schedule := fmt.Sprintf("pause of %v at %v, %+v, rate %v", length, at, fate, rate)
	server := memory.NewServer(rate)
	var gone atomic.Bool
	server.Taken = func(memory.Claim) { gone.Store(true) }
	var faulty atomic.Bool
	conn := server.Connect()
	conn.Link = func(string) memory.Fate {
		if faulty.Load() {
			return fate
		}
		return memory.Fate{}
	}
	var skipped atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(skipped.Load())) }
	client := lockclient.New(conn, lockclient.WithTTL(ttl), lockclient.WithClocks(clock, nil), lockclient.WithReleaseTimeout(time.Second))
	l, err := client.TryLock(background, "l")
	if err != nil {
		t.Fatal(err)
	}
	defer time.Sleep(2 * ttl) // messages on their way arrive
	defer l.Release(background)
	faulty.Store(true)
	time.Sleep(at)
	synctest.Wait()
	if gone.Load() {
		return false // lost before, as in TestSchedules
	}
	server.Skip(length)
	skipped.Add(int64(length))
	lost := gone.Load()
	if lost && l.Check() == nil {
		t.Errorf("%s: the process takes itself for the holder when it wakes", schedule)
	}
	for range 40 { // and later, whatever arrives
		time.Sleep(ttl / 20)
		if gone.Load() && l.Check() == nil {
			t.Errorf("%s: the process takes itself for the holder", schedule)
			break
		}
	}
	return lost
}
