package rewrite

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// testConfig fences billing (accounts in any schema), jobs (app.jobs and one partition) and archive (all of schema arch).
// The last makes every bare name suspicious, so most tables use fencesByName, without it.
var (
	fencesByName = Config{Fences: []Fence{
		{Name: "billing", Tables: []string{"accounts", `"Odd Name"`, "konten_übersicht"}},
		{Name: "jobs", Tables: []string{"app.jobs", "app.jobs_2024"}},
	}, HarmlessFunctions: []string{"app.total", "score"}}
	fencesBySchema = Config{Fences: []Fence{
		{Name: "billing", Tables: []string{"accounts"}},
		{Name: "archive", Tables: []string{"arch.*"}},
	}}
)

func newAnalyzer(t testing.TB, cfg Config) *Analyzer {
	t.Helper()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// describe writes an analysis as the tables of the tests do: one part per statement, kind (unless other), effect, fences,
// then what else is set. What an opaque statement always has is left out.
func describe(an Analysis, cfg Config) string {
	var parts []string
	for i := range an.Statements {
		st := &an.Statements[i]
		var w []string
		if st.Kind != KindOther {
			w = append(w, "["+st.Kind.String()+"]")
		}
		w = append(w, st.Effect.String())
		if n := st.Fences.Names(cfg); len(n) > 0 {
			w = append(w, strings.Join(n, "+"))
		}
		if t := st.Token; t != nil {
			s := fmt.Sprintf("token=%q", t.Value)
			if t.Param > 0 {
				s = fmt.Sprintf("token=$%d", t.Param)
			}
			if t.Local {
				s += " local"
			}
			w = append(w, s)
		}
		if st.Name != "" {
			w = append(w, "name="+st.Name)
		}
		if st.MayChangeToken && st.Effect < EffectOpaque {
			w = append(w, "may-change-token")
		}
		if st.ChangesLexing && st.Effect < EffectOpaque {
			w = append(w, "changes-lexing")
		}
		if st.Refuse != nil {
			w = append(w, "refuse="+st.Refuse.Code)
		}
		parts = append(parts, strings.Join(w, " "))
	}
	s := strings.Join(parts, "; ")
	if an.Plain {
		s += " plain"
	}
	return s
}

type tableTest struct{ sql, want string }

func runTable(t *testing.T, cfg Config, tests []tableTest) {
	t.Helper()
	a := newAnalyzer(t, cfg)
	var sc Scratch
	for _, tt := range tests {
		for _, again := range []string{"", " (cached)"} {
			an := a.Analyze(&sc, []byte(tt.sql), Settings{})
			if got := describe(an, cfg); got != tt.want {
				t.Errorf("%s%s\n got  %s\n want %s", tt.sql, again, got, tt.want)
			}
			checkPlan(t, a, tt.sql, an)
		}
	}
}

// checkPlan holds what must be true of every analysis.
func checkPlan(t *testing.T, a *Analyzer, sql string, an Analysis) {
	t.Helper()
	fail := func(what string) { t.Errorf("%s\n %s: %+v", sql, what, an) }
	if len(an.Starts) != len(an.Statements) || len(an.Statements) == 0 {
		fail("starts")
	}
	var fences FenceSet
	var effect Effect
	plain := true
	for i, st := range an.Statements {
		fences, effect, plain = fences.Union(st.Fences), max(effect, st.Effect), plain && st.plain()
		if st.Effect >= EffectOpaque && (!st.MayChangeToken || !st.ChangesLexing) {
			fail("opaque code may set anything")
		}
		if !st.Fences.Empty() && st.Effect < EffectWrite {
			fail("fences without a write")
		}
		if st.Kind == KindNoBlock && !st.Fences.Empty() {
			fail("guarded although it refuses a block")
		}
		if (st.Kind == KindSetToken) != (st.Token != nil) {
			fail("token")
		}
		if st.Verb == "" {
			fail("no verb")
		}
		if i > 0 && an.Starts[i] <= an.Starts[i-1] {
			fail("starts not ascending")
		}
	}
	if !fences.Equal(an.Fences) || effect != an.Effect || plain != an.Plain || (an.Failure != "") != (effect == EffectUnknown) {
		fail("plan does not sum up its statements")
	}
	if an.Failure == failTree {
		fail("panic while judging")
	}
	if an.Effect == EffectUnknown && !an.Fences.Equal(a.All()) {
		fail("unknown without all fences")
	}
}

// mutateFor is how long the mutation test runs; by default it stops after a fixed number of texts.
func mutateFor() time.Duration {
	d, _ := time.ParseDuration(os.Getenv("FENCEPROXY_MUTATE"))
	return d
}
