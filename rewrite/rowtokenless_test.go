package rewrite

import "testing"

// A session without a token is told so by the first row that its statement looks at, and never by the planner: what matches
// nothing matches nothing, whatever the form (to estimate, clauses.c estimate_expression_value calls STABLE functions of constants).
func TestTokenlessStatementsThatMatchNothing(t *testing.T) {
	conn, _ := rowConn(t)
	run(t, conn, "CREATE STATISTICS ON (tok + id) FROM t; ANALYZE")
	for mode, name := range map[OnStale]string{StaleReject: "reject", StaleRewrite: "rewrite"} {
		a := newAnalyzer(t, rowConfig(mode))
		var sc Scratch
		for sql, want := range map[string]string{
			"UPDATE t SET a = 1 WHERE id = 999":           "UPDATE 0",
			"UPDATE t SET a = 1 WHERE id = 1":             "ZF002",
			"UPDATE t SET a = 1 WHERE id > 999":           "UPDATE 0",
			"UPDATE t SET a = 1 WHERE id < 3":             "ZF002",
			"UPDATE t SET a = 1 WHERE id = 1 AND b = 'x'": "UPDATE 0",
			"UPDATE t SET a = 1 WHERE b = 'x' AND id < 3": "UPDATE 0",
			"UPDATE t SET a = 1 WHERE id = 1 AND false":   "UPDATE 0",
			"UPDATE part SET a = 1 WHERE id = 999":        "UPDATE 0",
			"UPDATE part SET a = 1 WHERE id = 150":        "ZF002",
			"DELETE FROM t WHERE id = 999":                "DELETE 0",
			"DELETE FROM t WHERE id = 1":                  "ZF002",
			"DELETE FROM t WHERE id > 999":                "DELETE 0",
			"DELETE FROM t WHERE id = 1 AND b = 'x'":      "DELETE 0",
			"DELETE FROM part WHERE id = 999":             "DELETE 0",
			"EXPLAIN UPDATE t SET a = 1 WHERE id = 1":     "EXPLAIN",
			"EXPLAIN DELETE FROM t WHERE id = 1":          "EXPLAIN",
			"EXPLAIN DELETE FROM part WHERE a = 1":        "EXPLAIN",
		} {
			an := a.Analyze(&sc, []byte(sql), Settings{})
			if !an.Spliced() {
				if sql[:7] != "EXPLAIN" {
					t.Errorf("%s is not spliced", sql)
				}
				continue
			}
			run(t, conn, "BEGIN")
			if got := outcomeOf(conn, spliced(an, sql)); got != want {
				t.Errorf("%s: %s\n %s\n %s, want %s", name, sql, spliced(an, sql), got, want)
			}
			run(t, conn, "ROLLBACK")
		}
	}
}
