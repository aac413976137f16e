package rewrite

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func errorPosition(conn *pgx.Conn, sql string) int {
	_, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return -1
	}
	return int(e.Position)
}

// TestErrorPositionsAreTheClients asks the server for the position of an error in the original and in the spliced text.
func TestErrorPositionsAreTheClients(t *testing.T) {
	conn, _ := rowConn(t)
	run(t, conn, "SET fence.token = '5'")
	for _, sql := range []string{
		"UPDATE t SET nope = 1 WHERE id = 1", "UPDATE t SET a = 1, nope = 'ü' WHERE id = 1", "UPDATE t SET b = 'äöü€😀', a = 1 WHERE nope = 1",
		"UPDATE t SET a = 1 WHERE id = 1 RETURNING nope", "UPDATE t SET a = 1 RETURNING nope", "DELETE FROM t WHERE b = 'ü' AND nope = 2 RETURNING id",
		"DELETE FROM t WHERE b = 'ü' RETURNING 1, nope", "INSERT INTO t (id, nope) VALUES (1, 2)", "INSERT INTO t (id, a) VALUES (11, 2), (12, 3), (13, 'x'), (14, 4)",
		"INSERT INTO t (b, a) VALUES ('ü', 2), ('ä', 3), ('ö', 'x'), ('é', nope)", "INSERT INTO t (id) SELECT nope FROM src", "INSERT INTO t (id, a) TABLE nope",
		"INSERT INTO t VALUES (1, 2, '3', nope)", "INSERT INTO part DEFAULT VALUES RETURNING nope", "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = nope",
		"MERGE INTO t USING src ON t.id = src.id WHEN MATCHED AND src.a > 0 THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (nope)",
		"SELECT 'ü'; UPDATE t SET a = 1 WHERE id = 1; DELETE FROM t WHERE nope = 1; UPDATE t SET nope = 1",
	} {
		for _, mode := range []OnStale{StaleReject, StaleRewrite} {
			a := newAnalyzer(t, rowConfig(mode))
			var sc Scratch
			an := a.Analyze(&sc, []byte(sql), Settings{})
			if !an.Spliced() {
				t.Fatalf("%s is not spliced", sql)
			}
			want := errorPosition(conn, sql)
			got := errorPosition(conn, spliced(an, sql))
			shifts := an.AppendShifts(nil, []byte(sql), 0, len(sql), 0, utf8.RuneCount)
			if p, ok := Original(shifts, got); !ok || p != want || want < 1 {
				t.Errorf("%s\n %s\n position %d is %d %v of the original, want %d", sql, spliced(an, sql), got, p, ok, want)
			}
		}
	}
}

// Every position of a spliced text is either one of the original, with the same character there, or in what was put in.
func TestShiftsCoverThePatches(t *testing.T) {
	for _, mode := range []OnStale{StaleReject, StaleRewrite} {
		a := newAnalyzer(t, rowConfig(mode))
		var sc Scratch
		for _, sql := range rowTexts() {
			an := a.Analyze(&sc, []byte(sql), Settings{})
			shifts := an.AppendShifts(nil, []byte(sql), 0, len(sql), 0, utf8.RuneCount)
			orig, seen := []rune(sql), 0
			for i, r := range []rune(spliced(an, sql)) {
				p, ok := Original(shifts, i+1)
				if !ok {
					continue
				}
				seen++
				if p < 1 || p > len(orig) || orig[p-1] != r {
					t.Fatalf("%s: position %d is %d of the original", sql, i+1, p)
				}
			}
			dropped := 0
			for _, s := range shifts {
				dropped += s.Dropped
			}
			if seen+dropped != len(orig) {
				t.Errorf("%s: %d of %d characters", sql, seen+dropped, len(orig))
			}
		}
	}
}

// The parts of a text, one for each statement, are the whole.
func TestSplicedPartsAreTheWhole(t *testing.T) {
	a := newAnalyzer(t, rowConfig(StaleReject))
	var sc Scratch
	for _, sql := range append(rowTexts(), "UPDATE t SET a=1;DELETE FROM t;INSERT INTO t(id)VALUES(1),(2),(3);INSERT INTO part DEFAULT VALUES;SELECT 1;DELETE FROM t WHERE a=1") {
		an := a.Analyze(&sc, []byte(sql), Settings{})
		var parts []byte
		var shifts []Shift
		chars := 0
		for i := range an.Starts {
			from, to := 0, len(sql)
			if i > 0 {
				from = int(an.Starts[i])
			}
			if i+1 < len(an.Starts) {
				to = int(an.Starts[i+1])
			}
			shifts = an.AppendShifts(shifts, []byte(sql), from, to, chars, utf8.RuneCount)
			before := len(parts)
			parts = an.AppendSpliced(parts, []byte(sql), from, to)
			chars += utf8.RuneCount(parts[before:])
		}
		if string(parts) != spliced(an, sql) {
			t.Errorf("%s\n parts %s", sql, parts)
		}
		whole := an.AppendShifts(nil, []byte(sql), 0, len(sql), 0, utf8.RuneCount)
		for i := range whole {
			if len(shifts) != len(whole) || shifts[i] != whole[i] {
				t.Errorf("%s: shifts %v, of the parts %v", sql, whole, shifts)
				break
			}
		}
	}
}

// changingCatalog is one whose table has got another column.
type changingCatalog struct {
	generation atomic.Uint64
	asked      atomic.Int64
}

func (c *changingCatalog) Generation() uint64 { return c.generation.Load() }

func (c *changingCatalog) Table(schema, name string) (Table, bool) {
	c.asked.Add(1)
	if c.generation.Load() == 0 {
		return Table{Columns: []string{"id", "a", "tok"}}, schema == "" && name == "t"
	}
	return Table{Columns: []string{"id", "b", "tok"}}, schema == "" && name == "t"
}

func TestPlansHoldForTheirGenerationOfTheCatalog(t *testing.T) {
	c := &changingCatalog{}
	a := newAnalyzer(t, Config{Catalog: c, Fences: []Fence{{Name: "f", Tables: []string{"t"}, RowToken: "tok"}, {Name: "g", Tables: []string{"s.*"}, RowToken: "tok"}}})
	var sc Scratch
	for _, sql := range []string{"INSERT INTO t VALUES (1, 2)", "INSERT INTO t VALUES ($1, $2)"} {
		for generation, column := range []string{`"a"`, `"b"`} {
			c.generation.Store(uint64(generation))
			want := `INSERT INTO t ("id", ` + column + `, "tok") VALUES (` + sql[len("INSERT INTO t VALUES ("):len(sql)-1] + `, fence.row_token('f', false))`
			before := c.asked.Load()
			for range 3 {
				if got := spliced(a.Analyze(&sc, []byte(sql), Settings{}), sql); got != want {
					t.Errorf("generation %d: %s, want %s", generation, got, want)
				}
			}
			if n := c.asked.Load() - before; n > 2 { // t could be in schema s, and its columns
				t.Errorf("the catalog was asked %d times", n)
			}
		}
	}
	// what does not rest on the catalog is not judged again
	sql := []byte("UPDATE s.x SET a = 1")
	a.Analyze(&sc, sql, Settings{})
	before := a.Stats().Parses
	c.generation.Store(7)
	if a.Analyze(&sc, sql, Settings{}); a.Stats().Parses != before {
		t.Error("judged again")
	}
}
