package rewrite

import (
	"strings"
	"testing"
)

// TestI1DemandsOfRowFences: what is not checked row by row in the very statement is guarded, or refused.
func TestI1DemandsOfRowFences(t *testing.T) {
	const guard, rows, created, none = "guard", "rows", "created", ""
	for _, tt := range []struct{ sql, want string }{ // with StaleRewrite
		{"UPDATE t SET a = 1", rows}, {"DELETE FROM t", rows}, {"UPDATE t SET a = 1, tok = 33 WHERE tok < 33", rows},
		{"INSERT INTO t (id) VALUES (1)", created}, {"INSERT INTO t (id, tok) VALUES (1, 2)", created}, {"INSERT INTO t (id) SELECT 1", created},
		{"INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 1", created}, {"INSERT INTO part DEFAULT VALUES", created},
		{"COPY t FROM STDIN", created}, {"COPY t (id, tok) FROM STDIN", created},
		{"MERGE INTO t USING src ON true WHEN MATCHED THEN DELETE", rows}, {"MERGE INTO t USING src ON true WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT (id) VALUES (1)", created},
		{"WITH x AS (DELETE FROM t RETURNING id) INSERT INTO part (id) SELECT id FROM x", "rows created"},
		{"PREPARE p AS UPDATE t SET a = 1", rows}, {"EXPLAIN ANALYZE UPDATE t SET a = 1", rows}, {"COPY (UPDATE t SET a = 1 RETURNING id) TO STDOUT", rows},
		{"EXPLAIN UPDATE t SET a = 1", none}, {"SELECT * FROM t", none}, {"SELECT * FROM t FOR UPDATE", none}, {"UPDATE src SET a = 1", none}, {"UPDATE pg_temp.t SET a = 1", none},
		{"UPDATE t SET a = app_true(1)", rows},
		{"TRUNCATE t", guard}, {"ALTER TABLE t ADD x int", guard}, {"DROP TABLE t", guard}, {"LOCK TABLE t", guard}, {"CREATE TABLE t (id int) PARTITION BY RANGE (id)", none},
		{"CREATE TABLE t AS SELECT 1", guard}, {"SELECT 1 INTO t", guard}, {"CREATE TABLE x PARTITION OF part FOR VALUES IN (1)", guard}, {"CREATE RULE r AS ON UPDATE TO t DO INSTEAD NOTHING", guard},
		{"CREATE TRIGGER x BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()", guard}, {"SELEC", guard}, {"DROP OWNED BY x", guard}, {"TRUNCATE src CASCADE", guard},
		{"DO $$ BEGIN END $$", none},
	} {
		for mode, want := range map[OnStale]string{StaleRewrite: tt.want, StaleReject: strings.NewReplacer("rows created", guard, rows, guard, created, guard).Replace(tt.want)} {
			a := newAnalyzer(t, rowConfig(mode))
			var sc Scratch
			for range 2 {
				st := a.Analyze(&sc, []byte(tt.sql), Settings{}).Statements[0]
				var got []string
				for _, d := range []struct {
					name string
					set  FenceSet
				}{{guard, st.Fences}, {rows, st.RowFences}, {created, st.NewRows}} {
					if d.set.Has(0) {
						got = append(got, d.name)
					}
				}
				if s := strings.Join(got, " "); s != want {
					t.Errorf("mode %d: %s: %q, want %q", mode, tt.sql, s, want)
				}
			}
		}
	}
}

// A table that two fences have, one of them without row tokens, keeps the guard of that one.
func TestI1OtherFencesKeepTheirGuard(t *testing.T) {
	cfg := Config{Fences: []Fence{{Name: "rows", Tables: []string{"t"}, RowToken: "tok", OnStale: StaleRewrite}, {Name: "other", Tables: []string{"public.t"}}}}
	a := newAnalyzer(t, cfg)
	var sc Scratch
	for _, sql := range []string{"UPDATE t SET a = 1", "INSERT INTO t (a) VALUES (1)", "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE", "COPY t (a, tok) FROM STDIN"} {
		an := a.Analyze(&sc, []byte(sql), Settings{})
		if got := strings.Join(an.Statements[0].Fences.Names(cfg), " "); got != "other" || !an.Fences.Has(1) {
			t.Errorf("%s: guard of %q", sql, got)
		}
	}
	cfg.Fences[1].RowToken = "tok2"
	a = newAnalyzer(t, cfg)
	for sql, want := range map[string]string{"UPDATE t SET a = 1": "ZF004", "UPDATE app.t SET a = 1": "-"} { // "t" in any schema; public.t only
		an := a.Analyze(&sc, []byte(sql), Settings{})
		if got := refusalsOf(an.Plan)[0]; got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

// Numbers decide whether a statement fences by hand, so what holds for one text must not be taken for another of its shape.
func TestHandWrittenNumbersAreNotPartOfTheShape(t *testing.T) {
	for _, mode := range []OnStale{StaleReject, StaleRewrite} {
		a := newAnalyzer(t, rowConfig(mode))
		var sc Scratch
		for _, texts := range [][2]string{
			{"UPDATE t SET tok = 33 WHERE tok < 33", "UPDATE t SET tok = 33 WHERE tok < 44"},
			{"UPDATE t SET tok = '33' WHERE tok < '33'", "UPDATE t SET tok = '33' WHERE tok < 'x'"},
			{"UPDATE t SET tok = 33 WHERE COALESCE(tok, 0) < 33", "UPDATE t SET tok = 33 WHERE COALESCE(tok, 0) < 34"},
			{"MERGE INTO t USING src ON true WHEN MATCHED AND t.tok < 3 THEN UPDATE SET tok = 3", "MERGE INTO t USING src ON true WHEN MATCHED AND t.tok < 3 THEN UPDATE SET tok = 4"},
		} {
			for _, order := range [][2]int{{0, 1}, {1, 0}, {0, 1}} {
				for _, i := range order {
					if got, want := refusalsOf(a.Analyze(&sc, []byte(texts[i]), Settings{}).Plan)[0], []string{"-", "ZF004"}[i]; got != want {
						t.Errorf("%s: %s, want %s", texts[i], got, want)
					}
				}
			}
		}
	}
}

func TestCopyIntoAStampedTable(t *testing.T) {
	c := stampedCatalog{}
	var sc Scratch
	for _, mode := range []OnStale{StaleReject, StaleRewrite} {
		a := newAnalyzer(t, Config{Catalog: c, Fences: []Fence{{Name: "f", Tables: []string{"t", "u"}, RowToken: "tok", OnStale: mode}}})
		for sql, want := range map[string]string{"COPY t (id) FROM STDIN": "-", "COPY u (id) FROM STDIN": "ZF004", "COPY t (id) FROM '/tmp/x'": "-", "COPY x (id) FROM STDIN": "-"} {
			an := a.Analyze(&sc, []byte(sql), Settings{})
			if got := refusalsOf(an.Plan)[0]; got != want {
				t.Errorf("%s: %s, want %s", sql, got, want)
			}
			if guarded := an.Fences.Has(0); guarded != strings.Contains(sql, " t ") && want == "-" { // the default is 0 without a token
				t.Errorf("mode %d: %s: guarded %v", mode, sql, guarded)
			}
		}
	}
}

type stampedCatalog struct{}

func (stampedCatalog) Generation() uint64 { return 0 }

func (stampedCatalog) Table(_, name string) (Table, bool) {
	return Table{Columns: []string{"id", "tok"}, StampedByDefault: name == "t"}, true
}

// Names that could mean another thing in SQL are always quoted.
func TestRowTokenNamesAreQuoted(t *testing.T) {
	a := newAnalyzer(t, Config{Fences: []Fence{{Name: "f", Tables: []string{"t"}, RowToken: `"Se""lect "`}, {Name: "g/*", Tables: []string{"u"}, RowToken: "TOK", OnStale: StaleRewrite}}})
	var sc Scratch
	for sql, want := range map[string]string{
		"UPDATE t SET a = 1":   `UPDATE t SET "Se""lect " = fence.row_stamp("t"."Se""lect ", (SELECT fence.row_token('f', false)), 'f'), a = 1`,
		"DELETE FROM U":        `DELETE FROM U WHERE COALESCE("u"."tok", 0) OPERATOR(pg_catalog.<=) (SELECT fence.row_token('g/*', false))`,
		`DELETE FROM u "a""b"`: `DELETE FROM u "a""b" WHERE COALESCE("a""b"."tok", 0) OPERATOR(pg_catalog.<=) (SELECT fence.row_token('g/*', false))`,
	} {
		an := a.Analyze(&sc, []byte(sql), Settings{})
		if !an.ASCIISplice {
			t.Errorf("%s: not ASCII", sql)
		}
		if got := spliced(an, sql); got != want {
			t.Errorf("%s\n got  %s\n want %s", sql, got, want)
		}
	}
	if an := a.Analyze(&sc, []byte("UPDATE u AS ä SET a = 1"), Settings{}); an.ASCIISplice || !an.Spliced() {
		t.Error("the alias is not ASCII")
	}
}
