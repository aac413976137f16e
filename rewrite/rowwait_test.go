package rewrite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// outcomeOf runs a text in the simple protocol: the SQLSTATE of an error, else the last command tag.
func outcomeOf(conn *pgx.Conn, sql string) string {
	results, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e):
		return e.Code
	case err != nil:
		return err.Error()
	}
	return results[len(results)-1].CommandTag.String()
}

// TestI1WaiterSeesTheNewerToken: a stale session that waits for the writer with the newer token must not write its row
// once that has committed, in no isolation level; and one that waits in vain is not held back.
func TestI1WaiterSeesTheNewerToken(t *testing.T) {
	control, connect := rowConn(t)
	first, waiter := connect(), connect()
	pid := waiter.PgConn().PID()
	for mode, name := range map[OnStale]string{StaleReject: "reject", StaleRewrite: "rewrite"} {
		a := newAnalyzer(t, rowConfig(mode))
		var sc Scratch
		splice := func(sql string) string {
			an := a.Analyze(&sc, []byte(sql), Settings{})
			if !an.Spliced() {
				t.Fatalf("%s is not spliced", sql)
			}
			return spliced(an, sql)
		}
		for _, sql := range []string{
			"UPDATE t SET a = 77 WHERE id = 1",
			"UPDATE t SET a = 77 WHERE b = 'b1' OR b = 'new'",
			"UPDATE t SET a = src.a FROM src WHERE src.id = 5 AND t.id = 1",
			"UPDATE t SET a = 77 WHERE id = 1 AND app_true(id)",
			"UPDATE part SET a = 77 WHERE id = 1",
			"UPDATE v SET a = 77 WHERE id = 1",
			"WITH u AS (UPDATE t SET a = 77 WHERE id = 1 RETURNING id) SELECT id FROM u",
			"DELETE FROM t WHERE id = 1",
			"DELETE FROM t USING src WHERE src.id = 5 AND t.id = 1",
			"DELETE FROM t WHERE id = 1 AND app_true(id)",
			"DELETE FROM t WHERE id IN (SELECT id - 4 FROM src WHERE id = 5)",
			"INSERT INTO t (id, a) VALUES (1, 77) ON CONFLICT (id) DO UPDATE SET a = excluded.a",
			"MERGE INTO t USING src ON t.id = 1 AND src.id = 5 WHEN MATCHED THEN UPDATE SET a = 77",
			"MERGE INTO t USING src ON t.id = 1 AND src.id = 5 WHEN MATCHED AND src.a > 0 THEN DELETE",
			"CURSOR",
		} {
			if sql == "CURSOR" {
				if mode == StaleRewrite {
					continue
				}
				sql = "UPDATE t SET a = 77 WHERE CURRENT OF c"
			}
			if !hasForm(control, sql) {
				continue
			}
			table := "t"
			if sql[:11] == "UPDATE part" {
				table = "part"
			}
			for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
				for _, end := range []string{"COMMIT", "ROLLBACK"} {
					for _, old := range []bool{true, false} { // whether it is the waiter that is stale
						tokens := [2]int{9, 5}
						if !old {
							tokens = [2]int{5, 9}
						}
						got, row := waits(t, control, first, waiter, pid, table, level, end, tokens, splice)(sql)
						what := fmt.Sprintf("%s, %s, %s, stale %v: %s", name, level, end, old, splice(sql))
						switch {
						case end == "COMMIT" && level != "READ COMMITTED":
							if got != "40001" {
								t.Errorf("%s\n %s", what, got)
							}
						case end == "COMMIT" && old && mode == StaleReject:
							if got != "ZF001" {
								t.Errorf("%s\n %s", what, got)
							}
						case end == "COMMIT" && old:
							if got[len(got)-2:] != " 0" || row != "55 9" {
								t.Errorf("%s\n %s, row %s", what, got, row)
							}
						default:
							if got[len(got)-2:] != " 1" || row == "55 9" || row == "55 5" {
								t.Errorf("%s\n %s, row %s", what, got, row)
							}
						}
					}
				}
			}
		}
	}
}

// waits returns a function that lets one session wait for another one's row and tells what came of it, and a and tok
// of the row afterwards.
func waits(t *testing.T, control, first, waiter *pgx.Conn, pid uint32, table, level, end string, tokens [2]int, splice func(string) string) func(string) (string, string) {
	return func(sql string) (string, string) {
		t.Helper()
		must := func(conn *pgx.Conn, sql string) {
			t.Helper()
			if code := run(t, conn, sql); code != "" {
				t.Fatalf("%s: %s", sql, code)
			}
		}
		must(control, "DELETE FROM t WHERE id = 1; DELETE FROM part WHERE id = 1; INSERT INTO t VALUES (1, 10, 'b1'); INSERT INTO part VALUES (1, 1)")
		must(first, fmt.Sprintf("BEGIN; SET LOCAL fence.token = 'jobs/7=%d'", tokens[0]))
		cursor := ""
		if sql[len(sql)-1] == 'c' {
			cursor = "; DECLARE c CURSOR FOR SELECT * FROM t WHERE id = 1; FETCH c"
		}
		must(waiter, fmt.Sprintf("BEGIN ISOLATION LEVEL %s; SET LOCAL fence.token = 'jobs/7=%d'; SELECT count(*) FROM t%s", level, tokens[1], cursor))
		must(first, splice("UPDATE "+table+" SET a = 55 WHERE id = 1"))
		text := splice(sql)
		result := make(chan string, 1)
		go func() { result <- outcomeOf(waiter, text) }()
		deadline := time.Now().Add(20 * time.Second)
		for waiting := false; !waiting; {
			if err := control.QueryRow(context.Background(), "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1", pid).Scan(&waiting); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				waiting = false
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not wait", sql)
			}
		}
		must(first, end)
		got := <-result
		row := "gone"
		rows, _ := waiter.PgConn().Exec(context.Background(), "SELECT a || ' ' || tok FROM "+table+" WHERE id = 1").ReadAll()
		if len(rows) == 1 && len(rows[0].Rows) == 1 {
			row = string(rows[0].Rows[0][0])
		}
		run(t, waiter, "ROLLBACK")
		return got, row
	}
}
