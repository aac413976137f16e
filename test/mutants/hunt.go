package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// torture is the package of the harness that knows nothing of the mutants.
const torture = "test/torture"

// byHand marks the fault that is planted to see a replay as well.
const byHand = "planted by hand"

// again is how often a schedule in which a violation was seen is run until it is seen again.
const again = 50

// hunted are the mutants that break the guarantee in a way that the harness must find by itself, with the number of the
// fault in the literature of fencing that they stand for. What is not here breaks something else: what a client is told,
// how long it waits, or one schedule of the protocol that only a conversation written for it has.
var hunted = []struct{ mutant, stands string }{
	{"no guard", "M11: fences in the memory of two proxies, which reject and nothing more"},
	{"guard, extended protocol", "M1"},
	{"guard, simple protocol", "M1"},
	{"a guard counts in later transactions", "M2, M10: checked outside of the transaction, cached per connection"},
	{"lock in the guard, fast, one fence", "M3, M4: check without a lock"},
	{"lock in the guard, fast, with parameters", "M3, M4"},
	{"lock in the guard, fast, simple protocol", "M3, M4"},
	{"lock in the guard, slow and session", "M3, M4"},
	{"guard reads in the statement after the lock", "M3: the snapshot is older than the lock"},
	{"xmax rule, fast, extended protocol", "M5: plain read above READ COMMITTED"},
	{"xmax rule, fast, simple protocol", "M5"},
	{"xmax rule, slow", "M5"},
	{"guard again after ROLLBACK TO", "M6"},
	{"raise at the first write", "M7: fenced not at takeover but at the first write"},
	{"equality passes, guard", "M9: < for <="},
	{"durable raise", "M12: fence forgotten in a crash"},
	{"effects on the reply: a Parse counts as soon as it is read", "a definition that the server skips hides a write"},
	{"the guard's statements are prepared anew after something opaque", "the guard is a statement that the client has replaced"},
	{"one guard in a thousand is left out", byHand},
}

// pinned break the guarantee too, but only where a clock, a crash or an etcd of long ago does what no run of the harness
// makes it do. The tests that do it are let loose on these.
var pinned = []struct{ mutant, stands string }{
	{"lock token, etcd: the create revision, not the header's", "M8: the token of a reply's header"},
	{"lock queue, etcd: the own key is checked when the wait is over", "M8b: the same with an etcd 3.4, whose Mutex forgets to look"},
	{"lock grant, lease table: durable", "M13: a counter that a crash takes back"},
	{"lock window: a renewal counts from when it was sent", "M14: the deadline counts from the reply"},
	{"effects on the reply: what the server skipped counts", "a definition that the server skips hides a write"},
}

// planted are mutants that only the harness is for.
var planted = []mutant{
	{
		name: "no guard",
		file: "wire/relay/guard.go",
		old:  "	return !d.session && !d.readOnly && !d.someToken && d.fences.Empty() && d.rows.Empty()\n",
		new:  "	return true\n",
	},
	{
		name: "one guard in a thousand is left out",
		file: "wire/relay/guard.go",
		old:  "	return !d.session && !d.readOnly && !d.someToken && d.fences.Empty() && d.rows.Empty()\n",
		new:  "	return rand.IntN(1000) == 0 || !d.session && d.fences.Empty() && d.rows.Empty()\n",
		and:  []edit{{"wire/relay/guard.go", "import (\n", "import (\n	\"math/rand/v2\"\n\n"}},
	},
	{
		name: "a guard counts in later transactions",
		file: "wire/relay/engine.go",
		old:  "if !e.tx.block || h.epoch != e.tx.epoch || h.serial != e.token.serial {",
		new:  "if false {",
	},
	{
		name: "raise at the first write",
		file: "tokens/announcer.go",
		old:  "	if s.InRecovery || len(l) == 0 {\n		return nil, nil",
		new:  "	if s.InRecovery || len(l) >= 0 {\n		return nil, nil",
		and: []edit{{"tokens/schema/*.sql",
			"  PERFORM pg_advisory_xact_lock_shared(1178947139, mark_id);\n",
			"  PERFORM fence.raise(f, e, c, NULL, NULL);\n  PERFORM pg_advisory_xact_lock_shared(1178947139, mark_id);\n"}},
	},
}

func find(name string) (mutant, error) {
	all := slices.Concat(planted, mutants)
	i := slices.IndexFunc(all, func(m mutant) bool { return m.name == name })
	if i < 0 {
		return mutant{}, fmt.Errorf("no mutant is called %q", name)
	}
	return all[i], nil
}

// hunt lets the harness loose on each mutant and prints how long it took to find it; at last on the product as it is,
// for as long as the slowest took.
func hunt(root string, which *regexp.Regexp, budget time.Duration, verbose bool) error {
	var survived []string
	slowest := time.Duration(0)
	for _, h := range hunted {
		if !which.MatchString(h.mutant) {
			continue
		}
		m, err := find(h.mutant)
		if err != nil {
			return err
		}
		var found time.Duration
		var how, replayed string
		err = m.broken(root, func(env []string) error {
			if found, how, err = torment(root, env, budget); found != 0 && err == nil && h.stands == byHand {
				replayed, err = replay(root, env, how)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if found == 0 {
			survived = append(survived, m.name)
			fmt.Printf("SURVIVED  %-60s %v   %s\n", m.name, budget, h.stands)
			continue
		}
		slowest = max(slowest, found)
		fmt.Printf("found     %-60s %6.1f s   %s\n", m.name, found.Seconds(), strings.TrimSpace(h.stands+" "+replayed))
		if verbose {
			fmt.Println(how)
		}
	}
	for _, h := range pinned {
		if !which.MatchString(h.mutant) {
			continue
		}
		m, err := find(h.mutant)
		if err != nil {
			return err
		}
		began := time.Now()
		red, _, err := m.try(root)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if len(red) == 0 {
			survived = append(survived, m.name)
			fmt.Printf("SURVIVED  %-60s %s   %s\n", m.name, m.tests, h.stands)
			continue
		}
		fmt.Printf("found     %-60s %6.1f s   %s (by %s in %s)\n", m.name, time.Since(began).Seconds(), h.stands, red[0], m.pkg)
	}
	if slowest > 0 {
		found, how, err := torment(root, os.Environ(), max(slowest, time.Minute))
		if err != nil {
			return err
		}
		if found != 0 {
			return fmt.Errorf("the product itself:\n%s", how)
		}
		fmt.Printf("clean     the product as it is, %v\n", max(slowest, time.Minute).Round(time.Second))
	}
	if len(survived) > 0 {
		return fmt.Errorf("not found within %v: %s", budget, strings.Join(survived, "; "))
	}
	return nil
}

// torment runs the harness and returns after how long it has seen a violation, 0 for never.
func torment(root string, env []string, budget time.Duration) (found time.Duration, how string, err error) {
	cmd := exec.Command("go", "test", "-count=1", fmt.Sprintf("-timeout=%v", budget+5*time.Minute), "-run=TestTorture", "-v",
		"./"+torture, fmt.Sprintf("-torture.time=%v", budget))
	cmd.Dir, cmd.Env = root, env
	out, err := cmd.CombinedOutput()
	if err == nil {
		return 0, "", nil
	}
	m := firstViolation.FindStringSubmatch(string(out))
	if m == nil {
		return 0, "", fmt.Errorf("the harness failed: %w\n%s", err, out)
	}
	found, err = time.ParseDuration(m[1] + "s")
	return max(found, time.Millisecond), violations(string(out)), err
}

var firstViolation = regexp.MustCompile(`first violation after ([0-9.]+) s`)

// replay runs the schedule that has shown the violation until it shows one again.
func replay(root string, env []string, how string) (string, error) {
	m := replaySeed.FindStringSubmatch(how)
	if m == nil {
		return "not to be replayed", nil // nothing was committed at all
	}
	cmd := exec.Command("go", "test", "-count=1", "-timeout=30m", "-run=TestTorture", "-v", "./"+torture,
		"-torture.replay="+m[1], fmt.Sprintf("-torture.tries=%d", again))
	cmd.Dir, cmd.Env = root, env
	out, err := cmd.CombinedOutput()
	if err == nil {
		return fmt.Sprintf("(NOT SEEN again in %d replays)", again), nil
	}
	try := tryOfReplay.FindStringSubmatch(string(out))
	if try == nil {
		return "", fmt.Errorf("the replay failed: %w\n%s", err, out)
	}
	return fmt.Sprintf("(replayed: seen again at try %s of %d)", try[1], again), nil
}

var (
	replaySeed  = regexp.MustCompile(`-torture.replay=(\d+)`)
	tryOfReplay = regexp.MustCompile(`first violation after [0-9.]+ s, in schedule (\d+)`)
)

// violations are the lines that tell what was seen.
func violations(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, ": fence ") || strings.Contains(line, "try again") || strings.Contains(line, "only ") {
			lines = append(lines, "          "+strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}
