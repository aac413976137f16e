package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Summary counts what a run has done.
type Summary struct {
	Seed         uint64
	Schedules    int
	Committed    int // told ok
	Refused      int
	Failed       int
	Unknown      int
	Tenures      int
	Takeovers    int // a token of another owner was acknowledged
	Held         int
	Faults       map[Fault]int
	Evictions    int
	Violations   int
	Shapes       map[string]int // of committed transactions
	Undecided    int            // fences of a schedule for which the linearizability checker ran out of time
	Linearizable int
	Took         time.Duration
}

func (s *Summary) count(events []Event, faults []faultDone) {
	owners := map[string]map[position]string{}
	for _, e := range events {
		switch e.Op {
		case Write:
			switch e.Outcome {
			case Done:
				s.Committed++
				s.shape(e.Shape)
			case Refused:
				s.Refused++
			case Failed:
				s.Failed++
			case Unknown:
				s.Unknown++
			}
		case Held:
			s.Held++
		case Raise:
			if p, err := parsePosition(e.Token); err == nil && e.Outcome == Done {
				if owners[e.Fence] == nil {
					owners[e.Fence] = map[position]string{}
				}
				owners[e.Fence][p] = e.Who
			}
		}
	}
	for _, byToken := range owners {
		var all []position
		for p := range byToken {
			all = append(all, p)
		}
		slices.SortFunc(all, func(a, b position) int {
			if a.below(b) {
				return -1
			}
			return 1
		})
		s.Tenures += len(all)
		for i := 1; i < len(all); i++ {
			if byToken[all[i]] != byToken[all[i-1]] {
				s.Takeovers++
			}
		}
	}
	if s.Faults == nil {
		s.Faults = map[Fault]int{}
	}
	for _, f := range faults {
		s.Faults[Fault(f.What)]++
	}
}

// shapes are the properties of transactions that the summary counts.
var shapes = []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "chain", "transfer", "set", "merge", "CTE", "INSERT SELECT", "COPY", "cursor",
	"EXECUTE", "function", "procedure", "DO block", "two fences", "alone", "one string", "pipelined", "ROLLBACK TO", "2PC", "crafty", "psql", "simple protocol", "cache statement"}

func (s *Summary) shape(text string) {
	if s.Shapes == nil {
		s.Shapes = map[string]int{}
	}
	for _, name := range shapes {
		if strings.Contains(text, name) {
			s.Shapes[name]++
		}
	}
}

func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d schedules in %v\n", s.Seed, s.Schedules, s.Took.Round(time.Second))
	fmt.Fprintf(&b, "  %d transactions: %d committed, %d refused, %d failed otherwise, %d unknown\n",
		s.Committed+s.Refused+s.Failed+s.Unknown, s.Committed, s.Refused, s.Failed, s.Unknown)
	fmt.Fprintf(&b, "  %d tenures, %d takeovers, %d evictions, held back %d times\n", s.Tenures, s.Takeovers, s.Evictions, s.Held)
	var committed, faults []string
	for _, shape := range slices.Sorted(maps.Keys(s.Shapes)) {
		committed = append(committed, fmt.Sprintf("%s %d", shape, s.Shapes[shape]))
	}
	for _, f := range slices.Sorted(maps.Keys(s.Faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", f, s.Faults[f]))
	}
	fmt.Fprintf(&b, "  committed: %s\n  faults: %s", strings.Join(committed, ", "), strings.Join(faults, ", "))
	fmt.Fprintf(&b, "\n  histories: %d linearizable, %d undecided\n  %d violations", s.Linearizable, s.Undecided, s.Violations)
	return b.String()
}

// trace is what matters for a violation: what was done under its tokens, what happened to those who did it, and the
// neighbouring commits.
func trace(v Violation, events []Event, faults []faultDone) string {
	actors := map[string]bool{}
	type line struct {
		at   int64
		text string
	}
	var lines []line
	for _, e := range events {
		if e.Fence != v.Fence || e.Op != Held && !slices.Contains(v.Tokens, e.Token) {
			continue
		}
		if e.Op != Held {
			actors[e.Who] = true
		}
	}
	for _, e := range events {
		if e.Fence != v.Fence || !actors[e.Who] || e.Op != Held && !slices.Contains(v.Tokens, e.Token) {
			continue
		}
		sign := "  "
		if e.Tx != 0 && e.Tx == v.Tx {
			sign = ">>"
		}
		lines = append(lines, line{e.From, sign + fmt.Sprintf(" %-9s token %-8s %-5s %-7s %s %s, took %v", e.Who, e.Token, e.Op, e.Outcome, e.Code, e.Shape, time.Duration(e.To-e.From).Round(100*time.Microsecond))})
	}
	for _, f := range faults {
		hit := f.Victim == ""
		for who := range actors {
			hit = hit || strings.HasPrefix(who, f.Victim+".") || who == f.Victim || strings.HasPrefix(f.Victim, "proxy")
		}
		if hit {
			lines = append(lines, line{f.From, fmt.Sprintf("   %-9s %s, for %v", f.Victim, f.What, time.Duration(f.To-f.From).Round(time.Millisecond))})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return int(a.at - b.at) })
	if len(lines) == 0 {
		return "    (nobody has told anything about it)"
	}
	// The last ones before it was seen; much earlier than the first write they tell nothing.
	end := len(lines)
	for end > 1 && lines[end-1].at > v.At {
		end--
	}
	lines = lines[max(0, end-40):end]
	var b strings.Builder
	for _, x := range lines {
		fmt.Fprintf(&b, "    %9.3f ms %s\n", float64(x.at-v.At)/1e6, x.text)
	}
	return b.String()
}

// codes counts what workers were told, by outcome and SQLSTATE.
func codes(events []Event) string {
	n := map[string]int{}
	for _, e := range events {
		n[strings.TrimSpace(string(e.Op)+" "+string(e.Outcome)+" "+e.Code)]++
	}
	return strings.TrimPrefix(fmt.Sprint(n), "map")
}
