package sidecar

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	soakTime  = flag.Duration("soak.time", 10*time.Second, "how long sidecars and writers are hurt, for each lock service")
	soakBound = flag.Duration("soak.bound", 15*time.Second, "most that a hand-over may take; make soak-sidecar demands TTL + 1 s")
	soakSeed  = flag.Uint64("soak.seed", 1, "chooses the faults")
)

// grace is takeover.grace: it counts when a pod is frozen inside of a transaction.
const grace = 200 * time.Millisecond

// Three sidecars beside three writers that know nothing, all of them killed, frozen and woken at random. Whatever happens,
// by the database's own record one writes at a time, and tokens never decrease. Mutants: the engine's guard is left out; an
// announce that does not wait for the raise.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	everywhere(t, func(t *testing.T, p *place) {
		p.c.Exec(t, p.db, `INSERT INTO acct SELECT g, 0 FROM generate_series(2, 4) g; CREATE TABLE ledger (n bigserial PRIMARY KEY, note text,
			tok text DEFAULT current_setting('fence.token', true), writer text DEFAULT current_setting('application_name'), at timestamptz DEFAULT clock_timestamp())`)
		var r record
		finish := r.follow(t, p)
		pods := p.pods()
		poll(t, "somebody writes", func() bool { return r.present().commits > 0 })
		c := &chaos{random: rand.New(rand.NewPCG(*soakSeed, 6)), pods: pods, record: &r}
		began := time.Now()
		c.run(began.Add(*soakTime))
		lasted := time.Since(began)
		starts := 0
		var names []string
		for _, pod := range pods {
			pod.writer.end()
			pod.sidecar.end()
			starts, names = starts+pod.writer.starts, append(names, pod.name)
		}
		judge := p.c.Connect(t, p.db, "postgres")
		poll(t, "what the server was at work on when its clients were killed has ended", func() bool {
			var left int
			err := judge.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ANY ($1)", names).Scan(&left)
			return err == nil && left == 0
		})
		finish()
		t.Cleanup(func() {
			for _, pod := range pods {
				if t.Failed() {
					t.Logf("%s: the last of the sidecar and of the writer:\n%s\n%s", pod.name, pod.sidecar.output.String(), pod.writer.output.String())
				}
			}
		})
		for i, f := range r.findings {
			if i < 20 {
				t.Error(f)
			}
		}
		var balance, rows int
		err := judge.QueryRow(ctx, "SELECT (SELECT sum(bal) FROM acct), (SELECT count(*) FROM ledger)").Scan(&balance, &rows)
		if err != nil || balance != rows || rows != r.commits {
			t.Errorf("balance %d, %d rows, %d in the record: %v", balance, rows, r.commits, err)
		}
		all, unprovoked := c.handOvers(r.tenures)
		var alone []handOver
		for _, h := range all {
			if h.alone {
				alone = append(alone, h)
			}
		}
		t.Logf("%v: %d commits in %d tenures, writers started %d times; %s", lasted.Round(time.Second), r.commits, len(r.tenures), starts, c.counts())
		t.Logf("violations %d", len(r.findings))
		_, most, text := describe(alone)
		t.Logf("hand-overs, other pods well: %s (TTL %v, bound TTL + 1 s)", text, ttl)
		_, _, text = describe(all)
		t.Logf("hand-overs, all: %s; tenures that ended without a fault: %d", text, unprovoked)
		for _, h := range alone {
			if h.took > ttl+time.Second {
				t.Logf("above the bound: %v after %v at %v, %v of it until the mark was raised", h.took.Round(time.Millisecond), h.reason, h.at.UTC().Format(time.StampMilli), h.raised.Round(time.Millisecond))
			}
		}
		if len(r.tenures) < 2 {
			t.Error("no hand-over")
		}
		if most > *soakBound {
			t.Errorf("a hand-over took %v, more than %v", most, *soakBound)
		}
	})
}
