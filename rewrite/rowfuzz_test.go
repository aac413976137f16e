package rewrite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
)

// checkSplice holds what must be true of every spliced text. It returns what is not.
func checkSplice(a *Analyzer, sc *Scratch, sql string, mode OnStale) (diff string, isSpliced bool) {
	an := a.Analyze(sc, []byte(sql), Settings{})
	if an.Failure == failTree {
		return "panic", false
	}
	if an.Failure != "" {
		return "", false
	}
	out := spliced(an, sql)
	edits, refusals := an.edits, fmt.Sprint(refusalsOf(an.Plan))

	// the same from its own tokens, rows and lists not left out, no cache
	all, _ := lexAll([]byte(sql))
	plan, _ := a.judge([]byte(sql), all)
	if plan.Failure == failDeep {
		return "", false
	}
	slow := Scratch{tokens: all}
	if plan.Failure != "" || fmt.Sprint(refusalsOf(plan)) != refusals {
		return fmt.Sprintf("refused %s, by the slow path %v %s", refusals, refusalsOf(plan), plan.Failure), false
	}
	if s := spliced(a.lay(&slow, []byte(sql), plan), sql); s != out {
		return fmt.Sprintf("%q, by the slow path %q", out, s), false
	}
	if len(edits) == 0 {
		return "", false
	}
	want, err := pg.Parse(sql)
	if err != nil {
		return "spliced although it does not parse", false
	}
	got, err := pg.Parse(out)
	if err != nil {
		return fmt.Sprintf("%q: %v", out, err), true
	}
	forgetPlaces(want.ProtoReflect())
	forgetPlaces(got.ProtoReflect())
	s := stripper{rewrite: mode == StaleRewrite}
	s.node(got.ProtoReflect(), want.ProtoReflect())
	if s.err != nil {
		return fmt.Sprintf("%q: %v", out, s.err), true
	}
	if !proto.Equal(got, want) {
		return fmt.Sprintf("%q is not the original and stamps", out), true
	}
	return "", true
}

func refusalsOf(p *Plan) (codes []string) {
	for i := range p.Statements {
		if r := p.Statements[i].Refuse; r != nil {
			codes = append(codes, r.Code)
		} else {
			codes = append(codes, "-")
		}
	}
	return codes
}

func rowTexts() (texts []string) {
	for _, c := range rowCases {
		texts = append(texts, c.sql)
	}
	return append(texts, "INSERT INTO t (id, a) VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd'), (5, 'e'), (6, NULL), ($1, 'x')",
		"INSERT INTO t (id, a) VALUES (1, ARRAY["+numbers(20)+"]), (2, ARRAY["+numbers(30)+"]) ON CONFLICT (id) DO UPDATE SET a = 1 WHERE t.id IN ("+numbers(40)+")",
		"DELETE FROM t WHERE id IN ("+numbers(40)+") AND a = 'x' -- y", "MERGE INTO t USING (VALUES (1,2),(3,4)) s(x, y) ON t.id = s.x WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN MATCHED THEN UPDATE SET a = y RETURNING t.id",
		"MERGE INTO t USING src ON true WHEN NOT MATCHED BY SOURCE AND t.a = 1 THEN UPDATE SET a = 2 WHEN MATCHED AND src.a = 1 THEN DELETE")
}

// TestSpliceDiffersByStampsOnly mutates the hand cases: whatever is spliced is the original and stamps, and from whatever
// cache or shortened form it comes, it is the same. FENCEPROXY_MUTATE makes it run for a duration.
func TestSpliceDiffersByStampsOnly(t *testing.T) {
	limit, count := time.Now().Add(mutateFor()), 6000
	if mutateFor() > 0 {
		count = 1 << 40
	}
	r := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
	var sc Scratch
	texts := rowTexts()
	seeds := append(slices.Clone(texts), corpus()...)
	modes := []OnStale{StaleReject, StaleRewrite}
	analyzers := []*Analyzer{newAnalyzer(t, rowConfig(StaleReject)), newAnalyzer(t, rowConfig(StaleRewrite))}
	changed := 0
	check := func(sql string) {
		for i, a := range analyzers {
			diff, ok := checkSplice(a, &sc, sql, modes[i])
			if diff != "" && !onPurpose([]byte(sql)) {
				t.Errorf("mode %d: %q\n %s", modes[i], sql, diff)
			}
			if ok {
				changed++
			}
		}
	}
	for _, sql := range texts {
		check(sql)
	}
	n := 0
	for ; n < count && !t.Failed() && (n%100 != 0 || mutateFor() == 0 || time.Now().Before(limit)); n++ {
		from := texts
		if n%8 == 0 {
			from = seeds
		}
		check(strings.ToValidUTF8(mutate(r, from), ""))
	}
	t.Logf("%d mutants, %d spliced", n, changed)
}

func FuzzSpliceDiffersByStampsOnly(f *testing.F) {
	for _, sql := range rowTexts() {
		f.Add(sql)
	}
	a, b := newAnalyzer(f, rowConfig(StaleReject)), newAnalyzer(f, rowConfig(StaleRewrite))
	var sc Scratch
	f.Fuzz(func(t *testing.T, sql string) {
		for mode, a := range map[OnStale]*Analyzer{StaleReject: a, StaleRewrite: b} {
			if diff, _ := checkSplice(a, &sc, sql, mode); diff != "" && !onPurpose([]byte(sql)) {
				t.Errorf("%q: %s", sql, diff)
			}
		}
	})
}
