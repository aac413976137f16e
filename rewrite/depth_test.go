package rewrite

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// chains are the ways to make a tree deep without deep parentheses.
var chains = []struct{ head, link, tail string }{
	{"SELECT 1", "+1", ""}, {"SELECT 1", "||a", ""}, {"SELECT a", "::b", ""}, {"SELECT a", " IS NULL", ""}, {"SELECT a", " IS NOT NULL", ""},
	{"SELECT a", " AT TIME ZONE b", ""}, {"SELECT a", " COLLATE b", ""}, {"SELECT a", " OPERATOR(pg_catalog.+) 1", ""}, {"SELECT a", "->'x'", ""},
	{"SELECT a", "[1]", ""}, {"SELECT (a)", ".b", ""}, {"SELECT a", "=1", ""}, {"SELECT a", " LIKE b", ""}, {"SELECT a", " !", ""}, {"SELECT a", " IS JSON", ""},
	{"SELECT", " -", "1"}, {"SELECT", " +", "1"}, {"SELECT", " @", "1"}, {"SELECT", " NOT", " a"}, {"SELECT ", "(", "1"}, {"SELECT ", "f(", "1"},
	{"SELECT ", "ARRAY[", "1"}, {"SELECT ", "CASE WHEN a THEN ", "1"}, {"SELECT ", "(SELECT ", "1"}, {"SELECT ", "a IN (SELECT ", "1"},
	{"SELECT a", " AND a", ""}, {"SELECT a", " OR a", ""}, {"SELECT 1", " UNION SELECT 1", ""}, {"SELECT a,b", " UNION SELECT a,b", ""},
	{"SELECT a,b", " EXCEPT ALL SELECT a,b", ""}, {"VALUES (1),('a')", " INTERSECT VALUES (1),('a')", ""}, {"SELECT * FROM a", " JOIN a ON b", ""},
	{"SELECT * FROM a", " JOIN a USING (b,c)", ""}, {"SELECT * FROM a", " CROSS JOIN b", ""}, {"SELECT * FROM a", " NATURAL JOIN b", ""}, {"SELECT * FROM a", ", a", ""},
	{"SELECT a BETWEEN 1", " AND 2 BETWEEN 1", " AND 2"}, {"WITH a AS (SELECT 1)", ", a AS (SELECT 1)", " SELECT 1"}, {"SELECT ", "EXISTS (SELECT ", "1"},
	{"EXPLAIN ", "EXPLAIN ", "SELECT 1"}, {"SELECT 1", ";SELECT 1", ""}, {"SELECT a IN (1", ",1", ")"}, {"INSERT INTO t VALUES (1)", ",(1)", ""},
	{"INSERT INTO t VALUES (now(),-1)", ",(now(),'a')", ""}, {"SELECT a", ".a", ""}, {"SELECT 'a'", "\n'a'", ""}, {"SELECT a ", "/*", ""}, {"SELECT 1", " -- x\n", ""},
	{"UPDATE t SET a=1", ",a=1", ""}, {"ALTER TABLE t DROP a", ",DROP a", ""}, {"CREATE TABLE t (a int", " CHECK (a)", ")"}, {"SELECT a", " FOR UPDATE", ""},
	{"SELECT ", "GREATEST(", "1"}, {"SELECT ", "ROW(", "1"}, {"SELECT ", "a[", "1"}, {"SELECT * FROM ", "(", "a"}, {"SELECT * FROM ", "(SELECT * FROM ", "a"},
	{"SELECT a", " AND b OR a", ""}, {"SELECT a", " OR NOT b AND c IS NULL", ""}, {"SELECT * FROM a", " JOIN a ON b AND c", ""},
	{"SELECT * FROM a", " LEFT JOIN a ON b OR c", ""}, {"SELECT * FROM a", " JOIN a ON b AND f(c, d)", ""}, {"SELECT ", "CASE WHEN a AND b THEN ", "1"},
	{"SELECT ", "CASE WHEN a THEN b, ", "1"}, {"SELECT a", " BETWEEN b AND c", ""}, {"SELECT a", " AND b UNION SELECT a", ""}, {"SELECT ", "a AND (", "1"},
	{"SELECT a", "+1 AND a", ""}, {"SELECT ", "NOT a AND NOT ", "b"}, {"SELECT ", "a AND - ", "b"}, {"SELECT a", "=b AND c", ""}, {"SELECT a", "::b AND c", ""},
	{"SELECT a", " IN (1) AND b", ""}, {"SELECT a", " IS NULL OR b", ""}, {"SELECT * FROM ", "(a JOIN b ON c AND ", "d"}, {"SELECT CASE", " WHEN a AND b THEN c", " END"},
	{"WITH a AS ", "(WITH a AS ", "(SELECT 1)"}, {"SELECT ", "JSON_ARRAY(", "1"}, {"SELECT ", "CAST(", "1"},
}

const chainChild = "FENCEPROXY_CHAIN_CHILD"

// TestChainsDoNotKillTheProcess runs chains of up to 1,000,000 links through Analyze in a process of its own, where the
// parser's overflow of its stack would be seen.
func TestChainsDoNotKillTheProcess(t *testing.T) {
	if os.Getenv(chainChild) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChainsDoNotKillTheProcess$")
		cmd.Env = append(os.Environ(), chainChild+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%.4000s", err, out)
		}
		return
	}
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for _, c := range chains {
		closing := strings.Repeat(")", strings.Count(c.link, "(")) + strings.Repeat("]", strings.Count(c.link, "[")-strings.Count(c.link, "]"))
		if strings.Contains(c.link, ")") || strings.Contains(c.link, "[1]") {
			closing = ""
		}
		for _, n := range []int{100, 1000, 1900, 3900, 4100, 10000, 24000, 50000, 1000000} {
			sql := c.head + strings.Repeat(c.link, n) + c.tail + strings.Repeat(closing, n)
			an := a.Analyze(&sc, []byte(sql), Settings{})
			if n == 100 && an.Failure == failDeep {
				t.Errorf("%s... of %d links is too deep", sql[:30], n)
			}
			checkPlan(t, a, "", an)
		}
	}
}

// The bound must not refuse what people write, and must see chains through commas.
func TestDepthBound(t *testing.T) {
	for _, tt := range []struct {
		sql      string
		min, max int
	}{
		{"SELECT 1", 1, 5},
		{"SELECT 1" + strings.Repeat("+1", 5000), 5000, 6000},
		{"SELECT a,b" + strings.Repeat(" UNION SELECT a,b", 5000), 5000, 20000},
		{"SELECT a IN (1" + strings.Repeat(",1", 50000) + ")", 1, 10},
		{"INSERT INTO t VALUES (1,'a',now())" + strings.Repeat(",(1,'a',now())", 5000), 1, 20},
		{"DELETE FROM t WHERE a = 1 AND b = 'x'" + strings.Repeat(" OR (a = 1 AND b = lower('x'))", 5000), 1, 30},
		{"SELECT * FROM a" + strings.Repeat(" JOIN a ON b AND c", 3000), 3000, 20000},
		{strings.Repeat("SELECT a+b, c FROM t;", 5000), 1, 20},
		{"SELECT " + strings.Repeat("f(a, ", 500) + "1" + strings.Repeat(")", 500), 500, 2000},
	} {
		tokens, _ := lexAll([]byte(tt.sql))
		if got := depthBound([]byte(tt.sql), tokens); got < tt.min || got > tt.max {
			t.Errorf("%.30s...: %d", tt.sql, got)
		}
	}
}

func treeDepth(m protoreflect.Message) int {
	deepest := 0
	eachMessage(m, func(c protoreflect.Message) { deepest = max(deepest, treeDepth(c)) })
	return deepest + 1
}

// TestTreesAreNoDeeperThanTheBound measures trees: a message costs the parser some 170 bytes of its stack of 8 MB, a
// token of the bound stands for four messages at most.
func TestTreesAreNoDeeperThanTheBound(t *testing.T) {
	for _, c := range chains {
		closing := ""
		if open := strings.Count(c.link, "(") - strings.Count(c.link, ")"); open > 0 {
			closing = strings.Repeat(")", open)
		} else if open := strings.Count(c.link, "[") - strings.Count(c.link, "]"); open > 0 {
			closing = strings.Repeat("]", open)
		}
		closing += strings.Repeat(" END", strings.Count(c.link, "CASE"))
		sql := c.head + strings.Repeat(c.link, 500) + c.tail + strings.Repeat(closing, 500)
		tokens, fail := lexAll([]byte(sql))
		bound := depthBound([]byte(sql), tokens)
		if fail != "" || bound > maxDepth {
			continue
		}
		tree, err := pg.Parse(sql)
		if err != nil {
			continue
		}
		if d := treeDepth(tree.ProtoReflect()); d > 4*bound+30 {
			t.Errorf("%s %s...: depth %d, bound %d", c.head, c.link, d, bound)
		}
	}
}
