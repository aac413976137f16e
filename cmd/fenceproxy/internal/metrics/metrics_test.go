package metrics

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

func sample() *Metrics {
	m := New(Build{Version: "1", Commit: "abc", GoVersion: "go1", Schema: "1", Mode: "enforce"}, []string{"billing"})
	m.RegisterPlans(func() Plans {
		return Plans{ExactHits: 3, ShapeHits: 2, Misses: 1, Bytes: 10, ParseSeconds: .5, Parses: 1}
	})
	m.RegisterOldSessions(func() int { return 2 })
	m.Reloaded(ReloadApplied, time.Unix(1800000000, 0))
	m.Reloaded(ReloadFailed, time.Unix(1900000000, 0))
	m.SessionOpened()
	m.SessionOpened()
	m.SessionClosed(relay.EndClient, time.Second)
	m.Refused(relay.RefuseLimit)
	m.Dialed(time.Millisecond, true)
	m.Dialed(time.Millisecond, false)
	m.Canceled(true)
	m.Panicked()
	m.Raised("app", tokens.Mark{Name: "billing"}, tokens.Token{}, 3*time.Millisecond)
	m.RaiseWaiting("app", "billing", time.Second, 1)
	m.RaiseFailed("app", "billing", tokens.CodeStale)
	m.Evicted("app", "billing", 1, "app", "idle in transaction")
	r := m.Recorder
	r.Statement("UPDATE", rewrite.EffectWrite, true)
	r.Statement("UPDATE", rewrite.EffectWrite, true)
	r.Statement("SELECT", rewrite.EffectNone, false)
	r.Guard(relay.GuardFast)
	r.Rejected(tokens.CodeStale, "billing", relay.ByDatabase)
	r.Rejected(tokens.CodeMalformed, "invented by a client", relay.ByProxy)
	r.Rejected("XX000", "", relay.ByProxy)
	r.Bytes(10, 20)
	return m
}

func TestExposition(t *testing.T) {
	m := sample()
	problems, err := testutil.GatherAndLint(m.Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	err = testutil.GatherAndCompare(m.Registry, strings.NewReader(`
# HELP fenceproxy_rejections_total Statements and sessions refused, by SQLSTATE, fence and who refused; shadow ones were not, in mode observe.
# TYPE fenceproxy_rejections_total counter
fenceproxy_rejections_total{by="database",code="ZF001",fence="billing"} 1
fenceproxy_rejections_total{by="proxy",code="ZF003",fence="other"} 1
fenceproxy_rejections_total{by="proxy",code="other",fence=""} 1
# HELP fenceproxy_statements_total Statements seen, by command, by what they may do to data, and whether they wrote a fenced table.
# TYPE fenceproxy_statements_total counter
fenceproxy_statements_total{effect="none",fenced="false",verb="SELECT"} 1
fenceproxy_statements_total{effect="write",fenced="true",verb="UPDATE"} 2
# HELP fenceproxy_sessions Client sessions open now.
# TYPE fenceproxy_sessions gauge
fenceproxy_sessions 1
# HELP fenceproxy_evictions_total Backends ended because they stood in the way of a raise.
# TYPE fenceproxy_evictions_total counter
fenceproxy_evictions_total{fence="billing"} 1
# HELP fenceproxy_plan_lookups_total Texts looked up, by where their plan was found: the cache of exact texts, the cache of shapes, or the parser (miss).
# TYPE fenceproxy_plan_lookups_total counter
fenceproxy_plan_lookups_total{result="exact"} 3
fenceproxy_plan_lookups_total{result="miss"} 1
fenceproxy_plan_lookups_total{result="shape"} 2
# HELP fenceproxy_relayed_bytes_total Bytes relayed, by direction.
# TYPE fenceproxy_relayed_bytes_total counter
fenceproxy_relayed_bytes_total{direction="to_client"} 20
fenceproxy_relayed_bytes_total{direction="to_server"} 10
`), "fenceproxy_rejections_total", "fenceproxy_statements_total", "fenceproxy_sessions", "fenceproxy_evictions_total",
		"fenceproxy_plan_lookups_total", "fenceproxy_relayed_bytes_total")
	if err != nil {
		t.Error(err)
	}
}

// Whatever a bug in a caller passes as verb, the number of series stays bounded.
func TestVerbsAreBounded(t *testing.T) {
	m := New(Build{}, nil)
	for i := range 10 * maxVerbs {
		m.Recorder.Statement(fmt.Sprint("verb", i), rewrite.EffectNone, false)
	}
	if n := testutil.CollectAndCount(m.Recorder.statements); n > maxVerbs+1 {
		t.Errorf("%d series", n)
	}
	if got := testutil.ToFloat64(m.Recorder.statements.WithLabelValues(other, "none", "false")); got != 9*maxVerbs {
		t.Errorf("%v statements counted as %q, want %v", got, other, 9*maxVerbs)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	r := sample().Recorder
	for name, f := range map[string]func(){
		"Statement": func() { r.Statement("UPDATE", rewrite.EffectWrite, true) },
		"Guard":     func() { r.Guard(relay.GuardFast) },
		"Bytes":     func() { r.Bytes(10, 20) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkStatement(b *testing.B) {
	r := sample().Recorder
	b.ReportAllocs()
	for b.Loop() {
		r.Statement("UPDATE", rewrite.EffectWrite, true)
	}
}

func BenchmarkBytes(b *testing.B) {
	r := sample().Recorder
	b.ReportAllocs()
	for b.Loop() {
		r.Bytes(100, 200)
	}
}

// The page for users names every metric.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	families, err := sample().Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), namespace) && !strings.Contains(string(page), "`"+f.GetName()+"`") {
			t.Errorf("%s is not in docs/metrics.md", f.GetName())
		}
	}
}

// After a reload the new fences are label values, and the counters of the former ones stay.
func TestFencesChange(t *testing.T) {
	m := sample()
	m.SetFences([]string{"jobs"})
	m.Recorder.Rejected(tokens.CodeStale, "jobs", relay.ByDatabase)
	m.Recorder.Rejected(tokens.CodeStale, "billing", relay.ByDatabase)
	for fence, want := range map[string]float64{"jobs": 1, "billing": 2, "other": 0} {
		if got := testutil.ToFloat64(m.Recorder.rejections.WithLabelValues(tokens.CodeStale, fence, "database")); got != want {
			t.Errorf("%s: %v, want %v", fence, got, want)
		}
	}
	if testutil.ToFloat64(m.reloads.success) != 0 || testutil.ToFloat64(m.reloads.stamp) != 1800000000 {
		t.Error("the failed reload counts as the one in force")
	}
}
