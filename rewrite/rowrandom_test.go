package rewrite

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// parts of statements that random ones are made of. %t is a table, %c a condition, %v a value, %s assignments.
var (
	randomTables = []string{"t", "t x", "t AS x", "ONLY t", "s2.t", "s2.t AS x", `"Odd Table"`, "part", "part x", "v", "child"}
	randomForms  = []string{
		"UPDATE %t SET %s", "UPDATE %t SET %s WHERE %c", "UPDATE %t SET %s FROM src WHERE %c", "UPDATE %t SET %s FROM src, plain p WHERE %c", "UPDATE %t SET %s WHERE %c RETURNING *, %v",
		"DELETE FROM %t", "DELETE FROM %t WHERE %c", "DELETE FROM %t USING src WHERE %c AND src.id = 5", "DELETE FROM %t WHERE %c RETURNING 1", "DELETE FROM %t USING src LEFT JOIN plain p USING (id) WHERE %c AND src.id < 7",
		"INSERT INTO %t (id) VALUES (%v), (%v), (%v)", "INSERT INTO %t (id) SELECT %v FROM src WHERE %c", "INSERT INTO %t (id) VALUES (%v) ON CONFLICT DO NOTHING",
		"INSERT INTO %t (id) VALUES (%v), (%v) ON CONFLICT (id) DO UPDATE SET %s", "INSERT INTO %t (id) VALUES (%v) ON CONFLICT (id) DO UPDATE SET %s WHERE %c", "INSERT INTO %t (id) SELECT %v UNION SELECT %v ORDER BY 1",
		"MERGE INTO %t USING src ON %c WHEN MATCHED AND %c THEN UPDATE SET %s WHEN MATCHED AND %c THEN DELETE WHEN NOT MATCHED AND %c THEN INSERT (id) VALUES (src.id + 1000)",
		"MERGE INTO %t USING src ON %c AND src.id = 5 WHEN MATCHED THEN DELETE", "MERGE INTO %t USING src ON %c AND src.id = 5 WHEN MATCHED THEN UPDATE SET %s WHEN NOT MATCHED THEN DO NOTHING",
		"WITH w AS (DELETE FROM %t WHERE %c RETURNING 1) UPDATE %t SET %s WHERE %c", "WITH w AS (UPDATE %t SET %s WHERE %c RETURNING 1 AS one) SELECT count(*) FROM w",
		"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) DELETE FROM %t WHERE %c",
	}
	randomConditions = []string{"true", "false", "%i = 1", "%i < 4", "%i = src.id", "%i IN (1, 2, 5)", "%i IN (SELECT id FROM src)", "EXISTS (SELECT FROM src z WHERE z.id = %i)", "NOT EXISTS (SELECT FROM src z WHERE z.id = %i)",
		"%c AND %c", "%c OR %c", "NOT (%c)", "(%c)", "CASE WHEN %c THEN %c ELSE %c END", "%i IN (SELECT id FROM src ORDER BY id LIMIT 2)", "%i BETWEEN 2 AND 6", "app_true(%i)", "%i = (SELECT min(id) FROM src)", "%i IS DISTINCT FROM 5",
		"%i = ANY (ARRAY[1, 2, 3])", "coalesce(%i, 0) > 2 /* WHERE */", "%i = 3 -- RETURNING\n", "%i::text LIKE '1%'", "%i % 2 = 0"}
	randomValues      = []string{"1", "2", "7", "3000 + 1", "%i", "(SELECT max(id) + 100 FROM src)", "CASE WHEN true THEN 8 END", "5 /* , */", "'6'"}
	randomAssignments = []string{"%a = 5", "%a = %a + 1", "%a = %v", "(%a) = ROW(9)", "%a = DEFAULT", "id = id + 2000", "%a = 1, id = id", "(%a, id) = (SELECT 4, 3000)", "%a = CASE WHEN %c THEN 1 ELSE 2 END"}
)

// randomStatement makes a statement that PostgreSQL often accepts.
func randomStatement(r *rand.Rand) string {
	pick := func(l []string) string { return l[r.IntN(len(l))] }
	sql := pick(randomForms)
	for n := 0; strings.Contains(sql, "%t") || strings.Contains(sql, "%c") || strings.Contains(sql, "%v") || strings.Contains(sql, "%s"); n++ {
		table := pick(randomTables)
		for strings.HasPrefix(sql, "INSERT") && strings.HasPrefix(table, "ONLY") || strings.HasPrefix(sql, "INSERT") && strings.HasSuffix(table, "t x") {
			table = pick(randomTables)
		}
		sql = strings.Replace(sql, "%t", table, 1)
		c := pick(randomConditions)
		if n > 12 {
			c = "true"
		}
		sql = strings.Replace(sql, "%c", c, 1)
		sql = strings.Replace(sql, "%v", pick(randomValues), 1)
		sql = strings.Replace(sql, "%s", pick(randomAssignments), 1)
	}
	column := "a"
	if strings.Contains(sql, "Odd Table") {
		column = `"select"`
	}
	row := "t"
	switch {
	case strings.Contains(sql, " x "), strings.HasSuffix(sql, " x"):
		row = "x"
	case strings.Contains(sql, "Odd Table"):
		row = `"Odd Table"`
	case strings.Contains(sql, "part"):
		row = "part"
	case strings.Contains(sql, " v "):
		row = "v"
	case strings.Contains(sql, "child"):
		row = "child"
	}
	return strings.NewReplacer("%i", row+".id", "%a", column).Replace(sql)
}

// TestRandomRowStatementsOnServer: what PostgreSQL makes of a spliced statement is what it makes of the original, stamps
// aside; with stale rows, nothing, or ZF001 exactly if the fresh one has written a row. FENCEPROXY_MUTATE makes it run for a
// duration.
func TestRandomRowStatementsOnServer(t *testing.T) {
	conn, _ := rowConn(t)
	cfg := func(s OnStale) Config {
		c := rowConfig(s)
		c.Fences[0].Tables = append(slices.Clone(c.Fences[0].Tables), "child")
		return c
	}
	analyzers := map[OnStale]*Analyzer{StaleReject: newAnalyzer(t, cfg(StaleReject)), StaleRewrite: newAnalyzer(t, cfg(StaleRewrite))}
	var sc Scratch
	r := rand.New(rand.NewPCG(6, uint64(time.Now().UnixNano())))
	ran, wrote := 0, 0
	for limit := time.Now().Add(max(mutateFor(), 5*time.Second)); (time.Now().Before(limit) || ran < 40) && !t.Failed(); {
		sql := randomStatement(r)
		if code := run(t, conn, "PREPARE try AS "+strings.TrimPrefix(sql, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ")+"; DEALLOCATE try"); code != "" {
			continue
		}
		orig := tries(t, conn, "", sql, nil)
		for mode, a := range analyzers {
			an := a.Analyze(&sc, []byte(sql), Settings{})
			out := spliced(an, sql)
			if !an.Spliced() {
				t.Errorf("%s is not spliced: %v", sql, an.Statements[0].Refuse)
				continue
			}
			ran++
			fresh := tries(t, conn, "", out, nil)
			if fresh.code != orig.code || fresh.tag != orig.tag || !slices.Equal(withoutTokens(fresh.after), withoutTokens(orig.after)) {
				t.Errorf("%s\n %s\n %q %q, original %q %q\n %q\n %q", sql, out, fresh.code, fresh.tag, orig.code, orig.tag, withoutTokens(fresh.after), withoutTokens(orig.after))
			}
			if fresh.code != "" {
				continue
			}
			touched := slices.ContainsFunc(fresh.lost(), isFenced)
			if touched {
				wrote++
			}
			stale := tries(t, conn, staleRows, out, nil)
			switch {
			case mode == StaleReject && touched && stale.code != "ZF001",
				mode == StaleReject && !touched && stale.code != "",
				mode == StaleRewrite && stale.code != "":
				t.Errorf("%s\n %s\n stale: %q, touched %v", sql, out, stale.code, touched)
			case stale.code == "" && slices.ContainsFunc(stale.lost(), isFenced):
				t.Errorf("%s\n %s\n a stale session has changed %q", sql, out, stale.lost())
			}
		}
	}
	t.Logf("%d ran, %d wrote", ran, wrote)
	if wrote < 5 {
		t.Error("the test has lost its power")
	}
}
