package e2e

import (
	"fmt"
	"testing"
)

// A temporary table that hides a fenced one is taken for it, as docs/rowtokens.md tells; written with its schema it is no
// fence's. The fenced table stays as it is.
func TestRowTokensBehindATemporaryTable(t *testing.T) {
	for _, mode := range rowModes {
		_, connect, direct := columnsProxy(t, mode)
		token := nextToken()
		eventually(t, "the columns are known", func() bool {
			_, err := connect(text(token)).Exec(t.Context(), "INSERT INTO work VALUES (1, 'S', 'N')")
			return err == nil
		})
		must(t, direct, "TRUNCATE work")

		without := connect(text(token))
		must(t, without, "CREATE TEMP TABLE work (id int, state text, note text, more text)")
		for sql, sqlstate := range map[string]string{
			"UPDATE work SET state = 'x'":                  "42703",
			"DELETE FROM work":                             "42703",
			"INSERT INTO work (id) VALUES (1)":             "42703",
			"INSERT INTO work VALUES (1, 'S')":             "42703",
			"INSERT INTO work VALUES (1, 'S', 'N', 'all')": "", // as many as the fenced table has: sent as it is
		} {
			for _, protocol := range []string{"simple", "extended"} {
				if _, got := tag(without, sql, protocol); got != sqlstate {
					t.Errorf("%s, without the column, %s, %s: %q", mode, sql, protocol, got)
				}
			}
		}

		with := connect(text(token))
		must(t, with, "CREATE TEMP TABLE work (note text, tok bigint DEFAULT 0, id int, state text)")
		must(t, with, "INSERT INTO work VALUES (1, 'S', 'N')")            // by the fenced table's names
		must(t, with, "INSERT INTO pg_temp.work VALUES ('N', 7, 2, 'S')") // by its own order
		if n := number(t, with, fmt.Sprintf("SELECT count(*) FROM pg_temp.work WHERE note = 'N' AND state = 'S' AND tok = CASE id WHEN 1 THEN %d ELSE 7 END", token)); n != 2 {
			t.Errorf("%s: %d rows are where they should be", mode, n)
		}

		nobody := connect("")
		must(t, nobody, "CREATE TEMP TABLE work (id int, state text, tok bigint); INSERT INTO pg_temp.work VALUES (1, 'S', 7); UPDATE pg_temp.work SET state = 'x'")
		want(t, nobody, "INSERT INTO work (id) VALUES (1)", "ZF002")
		if n := number(t, direct, "SELECT count(*) FROM work"); n != 0 {
			t.Errorf("%s: %d rows in the fenced table", mode, n)
		}
	}
}
