package rewrite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	pg "github.com/pganalyze/pg_query_go/v6"
)

type freshAnalysis struct {
	Analysis
	tree *pg.ParseResult
}

// freshly judges a text from its own tree: no tokens joined, no rows or literals left out, no cache. It is the oracle of
// everything that Analyze does to avoid parsing.
func freshly(a *Analyzer, sql string) (an freshAnalysis, ok bool) {
	tree, err := pg.Parse(sql)
	if err != nil {
		return an, false
	}
	an.tree = tree
	an.Plan = &Plan{}
	for _, raw := range tree.Stmts {
		j := judge{a: a}
		an.Plan.add(j.statement(raw.Stmt), 0)
		at, _ := skipBlank([]byte(sql), int(raw.StmtLocation))
		for at < len(sql) && sql[at] == ';' {
			at, _ = skipBlank([]byte(sql), at+1)
		}
		an.Starts = append(an.Starts, int32(at))
	}
	if len(tree.Stmts) == 0 {
		an.Plan.add(Statement{Kind: KindEmpty, Verb: "EMPTY"}, 0)
		an.Starts = append(an.Starts, 0)
	}
	return an, true
}

// compareWithFresh returns what differs between the analysis of a text, wherever it came from, and its own tree.
func compareWithFresh(a *Analyzer, sc *Scratch, sql string) (diff string, parsed bool) {
	an := a.Analyze(sc, []byte(sql), Settings{})
	if an.Failure == failTree {
		return "panic while judging", false
	}
	if !scannable(sql) {
		return "", false
	}
	tokens, fail := lexAll([]byte(sql))
	if fail == "" && depthBound([]byte(sql), tokens) > maxDepth {
		return "", false
	}
	fresh, ok := freshly(a, sql)
	if !ok && an.Failure == "" {
		return "judged although it does not parse: " + describe(an, fencesByName), true
	}
	if !ok {
		return "", false
	}
	if d := treeDepth(fresh.tree.ProtoReflect()); d > 4*depthBound([]byte(sql), tokens)+30 {
		return fmt.Sprintf("tree of depth %d, bound %d", d, depthBound([]byte(sql), tokens)), true
	}
	if an.Failure != "" {
		return "unknown (" + an.Failure + ") although it parses", true
	}
	if strings.Contains(strings.ToUpper(sql), "COPY") && emptyString(sql, tokens) {
		return "", true // the tree takes COPY FROM '' for COPY FROM STDIN
	}
	got, want := describe(an, fencesByName), describe(fresh.Analysis, fencesByName)
	if got != want {
		return "got " + got + ", from its own tree " + want, true
	}
	if an.Statements[0].Kind != KindEmpty && !slices.Equal(an.Starts, fresh.Starts) {
		return "starts", true
	}
	return "", true
}

func emptyString(sql string, tokens []token) bool {
	return slices.ContainsFunc(tokens, func(t token) bool { return t.isEmptyString([]byte(sql)) })
}

func mutate(r *rand.Rand, texts []string) string {
	s := texts[r.IntN(len(texts))]
	for range max(1, r.IntN(6)-2) {
		p := r.IntN(len(s) + 1)
		o := texts[r.IntN(len(texts))]
		switch r.IntN(6) {
		case 0, 1:
			s = s[:p] + fragments[r.IntN(len(fragments))] + s[p:]
		case 2:
			s = s[:p] + s[min(len(s), p+1+r.IntN(4)):]
		case 3:
			from := r.IntN(len(o) + 1)
			s = s[:p] + o[from:min(len(o), from+r.IntN(60))] + s[p:]
		case 4:
			s += []string{" ", "; ", " UNION ", " -- \n"}[r.IntN(4)] + o
		case 5: // another text of the same shape, or nearly
			s = strings.NewReplacer("'fence.token'", "'app.user'", "1", "7", "'34'", "''", "off", "on", "'x'", "E'x'", "0", "1.5").Replace(s)
		}
	}
	return s
}

// TestCachedPlanEqualsFreshTree mutates the corpus: any text, served from any cache or parsed in any shortened form,
// must be judged as its own tree is. FENCEPROXY_MUTATE makes it run for a duration.
func TestCachedPlanEqualsFreshTree(t *testing.T) {
	limit, count := time.Now().Add(mutateFor()), 20000
	if mutateFor() > 0 {
		count = 1 << 40
	}
	a := newAnalyzer(t, fencesByName)
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	var sc Scratch
	texts := corpus()
	parsed, n := 0, 0
	for ; n < count && (n%1000 != 0 || mutateFor() == 0 || time.Now().Before(limit)); n++ {
		sql := mutate(r, texts)
		diff, ok := compareWithFresh(a, &sc, sql)
		if diff != "" && !onPurpose([]byte(sql)) {
			t.Errorf("%q: %s", sql, diff)
		}
		if ok {
			parsed++
		}
		if scannable(sql) {
			if err := compareWithScan(sql); err != nil {
				t.Errorf("lexer: %q: %v", sql, err)
			}
		}
		if t.Failed() && n > 100000 {
			break
		}
	}
	t.Logf("%d mutants, %d parse, %+v", n, parsed, a.Stats())
}

func FuzzCachedPlanEqualsFreshTree(f *testing.F) {
	for _, sql := range corpus() {
		f.Add(sql)
	}
	a := newAnalyzer(f, fencesByName)
	var sc Scratch
	f.Fuzz(func(t *testing.T, sql string) {
		if diff, _ := compareWithFresh(a, &sc, sql); diff != "" && !onPurpose([]byte(sql)) {
			t.Errorf("%q: %s", sql, diff)
		}
		checkPlan(t, a, sql, a.Analyze(&sc, []byte(sql), Settings{UnsafeEncoding: true}))
	})
}

// Texts that share a shape share a plan, and texts that must not, do not.
func TestShapes(t *testing.T) {
	shape := func(sql string) []byte {
		tokens, fail := lexAll([]byte(sql))
		if fail != "" {
			t.Fatalf("%s: %s", sql, fail)
		}
		return appendShape(nil, []byte(sql), tokens)
	}
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"SELECT 1", "SELECT  2 -- x", true},
		{"SELECT 'a'", "SELECT 'it''s'", true},
		{"SELECT a.b", "SELECT a . b", true},
		{"SELECT 1", "SELECT 1.5", false},
		{"SELECT 1", "SELECT 3000000000", false},
		{"SELECT 'a'", "SELECT E'a'", false},
		{"SELECT 'a'", "SELECT $$a$$", false},
		{"SELECT $1", "SELECT $2", false},
		{"SELECT n'a'", "SELECT n 'a'", false},
		{`SELECT "a"`, "SELECT a", false},
		{"SELECT a.b", "SELECT a b", false},
		{"SELECT a<b", "SELECT a< b", true},
		{"SELECT a<=b", "SELECT a< =b", false},
		{"SELECT set_config('a', 'x', true)", "SELECT set_config('a', 'y', true)", true},
		{"SELECT set_config('a', 'x', true)", "SELECT set_config('b', 'x', true)", false},
		{"SELECT set_config((('a')), 'x', true)", "SELECT set_config((('b')), 'x', true)", false},
		{`SELECT "set_config"('a', 'x', true)`, `SELECT "set_config"('b', 'x', true)`, false},
		{`SELECT U&"set\005fconfig"('a', 'x', true)`, `SELECT U&"set\005fconfig"('b', 'x', true)`, false},
		{`UPDATE U&"a!0062" UESCAPE '!' SET a = 1`, `UPDATE U&"a!0062" UESCAPE '+' SET a = 1`, false},
		{`SELECT E'\x41'`, `SELECT E'\x42'`, false},
	} {
		if got := bytes.Equal(shape(tt.a), shape(tt.b)); got != tt.same {
			t.Errorf("%s and %s: same shape %v", tt.a, tt.b, got)
		}
	}
}

func TestRowsAreFolded(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for _, tt := range []struct {
		sql    string
		tokens int // that are left
		want   string
	}{
		{"INSERT INTO accounts VALUES (1, 'a'), (2, 'b'), (3, 'c')", 9, "write billing"},
		{"INSERT INTO accounts VALUES (1, 'a'), (2, NULL), (3, 'c'), (4, NULL), (5, 'd')", 15, "write billing"},
		{"INSERT INTO accounts VALUES ($1, $2), ($3, $4) RETURNING a", 11, "write billing"},
		{"INSERT INTO t VALUES (lower('a')), (lower('b'))", 10, "write plain"},
		{"INSERT INTO t VALUES (lower('a')), (f('b'))", 17, "opaque"},
		{"INSERT INTO t VALUES (f('a')), (f('b'))", 10, "opaque"},
		{"INSERT INTO t VALUES (set_config('a', 'b', true)), (set_config('fence.token', 'b', true))", 25, "write may-change-token"},
		{"INSERT INTO t VALUES (1, (SELECT 1)), (2, (SELECT 2)); DELETE FROM accounts", 16, "write; write billing"},
		{"SELECT * FROM (VALUES (1), (2)) x, (VALUES ('a'), ('b')) y", 18, "none plain"},
		{"SELECT t.values, (1), (1)", 12, "none plain"},
		{"VALUES (1), (2), (3) UNION VALUES (1), (2)", 9, "none plain"},
		{"SELECT a FROM t WHERE a IN (" + numbers(16) + ")", 40, "none plain"},
		{"SELECT a FROM t WHERE a IN (" + numbers(5000) + ")", 40, "none plain"},
		{"SELECT a FROM t WHERE a IN (-1, 1.5, " + numbers(5000) + ", -7, 2.5, $1)", 43, "none plain"},
		{"SELECT a FROM t WHERE a = ANY (ARRAY[" + strings.Repeat("$1, ", 5000) + "$2])", 44, "none plain"},
		{"DELETE FROM accounts WHERE a IN ('x'::uuid" + strings.Repeat(", 'y'::uuid", 9000) + ")", 71, "write billing"},
		{"DELETE FROM accounts WHERE a IN (" + numbers(50) + ", f(1), " + numbers(50) + ")", 144, "opaque billing"},
		{"SELECT f(" + numbers(17) + ")", 35, "opaque"},
		{"SELECT lower(" + numbers(99) + ")", 35, "none plain"},
		{"SELECT set_config(" + numbers(99) + ")", 35, "none may-change-token changes-lexing"},
		{"SELECT set_config('a', " + numbers(99) + ")", 35, "none may-change-token changes-lexing"},
		{"INSERT INTO t VALUES (" + numbers(40) + "), (" + numbers(40) + ")", 85, "write plain"},
		{"INSERT INTO t VALUES (f(" + numbers(40) + ")), (f(" + numbers(41) + "))", 40, "opaque"},
		{"INSERT INTO t (SELECT " + numbers(40) + ")", 85, "write plain"},
		{"SELECT (1, 2) OVERLAPS (3, 4), 1::float(1), 1::numeric(10, 2)", 28, "none plain"},
	} {
		an := a.Analyze(&sc, []byte(tt.sql), Settings{})
		if got := describe(an, fencesByName); got != tt.want || len(sc.tokens) != tt.tokens {
			t.Errorf("%.99s: %s with %d tokens, want %s with %d", tt.sql, got, len(sc.tokens), tt.want, tt.tokens)
		}
		if diff, _ := compareWithFresh(a, &sc, tt.sql); diff != "" {
			t.Errorf("%.99s: %s", tt.sql, diff)
		}
	}
}

func numbers(n int) string { return "7" + strings.Repeat(", 7", n-1) }
