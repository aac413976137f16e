package rewrite

import (
	"strings"
	"testing"
)

func scopeConfig(s OnStale) Config {
	return Config{Catalog: typedCatalog{rowColumns}, Fences: []Fence{{Name: "jobs/*", Tables: fencedTables, RowToken: "tok", OnStale: s, Scope: "jobs/{id}"}}}
}

// typedCatalog knows the types of t too.
type typedCatalog struct{ fixedCatalog }

func (c typedCatalog) Table(schema, name string) (Table, bool) {
	t, ok := c.fixedCatalog.Table(schema, name)
	if name == "t" && schema == "" {
		t.Types = []string{"integer", "integer", "text", "numeric", "date", "integer", "bigint"}
	}
	return t, ok
}

// TestScopeTellsWhoseARowIs: a session with a token for jobs/1 and one for jobs/2 writes these two rows, each under its
// own token, and no other.
func TestScopeTellsWhoseARowIs(t *testing.T) {
	conn, _ := rowConn(t)
	for _, tt := range []struct{ sql, reject, rewrite, after string }{
		{"UPDATE t SET a = 77 WHERE id = 1", "UPDATE 1", "UPDATE 1", "1:77:5 2:20:0 3:30:0"},
		{"UPDATE t SET a = 77 WHERE id <= 2", "UPDATE 2", "UPDATE 2", "1:77:5 2:77:6 3:30:0"},
		{"UPDATE t SET a = 77 WHERE id = 3", "ZF002", "UPDATE 0", "1:10:0 2:20:0 3:30:0"},
		{"UPDATE t SET a = 77", "ZF002", "UPDATE 2", "1:77:5 2:77:6 3:30:0"},
		{"UPDATE t SET a = 77 WHERE id = 999", "UPDATE 0", "UPDATE 0", "1:10:0 2:20:0 3:30:0"},
		{"UPDATE t SET id = 3 WHERE id = 1", "refused", "refused", ""},
		{"UPDATE t SET tok = 33 WHERE id = 1 AND tok < 33", "refused", "refused", ""},
		{"UPDATE t x SET a = 77 FROM src WHERE x.id = 2 AND src.id = 5 AND x.tok < 9", "UPDATE 1", "UPDATE 1", "1:10:0 2:77:6 3:30:0"},
		{"DELETE FROM t WHERE id = 2", "DELETE 1", "DELETE 1", "1:10:0 3:30:0"},
		{"DELETE FROM t WHERE id = 3 AND tok < 33", "ZF002", "DELETE 0", "1:10:0 2:20:0 3:30:0"},
		{"DELETE FROM t WHERE id IN (2, 3)", "ZF002", "DELETE 1", "1:10:0 3:30:0"},
		{"DELETE FROM t", "ZF002", "DELETE 2", "3:30:0"},
		{"INSERT INTO t (a, id) VALUES (5, 1) ON CONFLICT (id) DO UPDATE SET a = 78", "INSERT 0 1", "INSERT 0 1", "1:78:5 2:20:0 3:30:0"},
		{"DELETE FROM t WHERE id = 2; INSERT INTO t (a, id) VALUES (5, 2)", "INSERT 0 1", "INSERT 0 1", "1:10:0 2:5:6 3:30:0"},
		{"DELETE FROM t WHERE id < 3; INSERT INTO t VALUES (1, 7), (2, 8), ('1', 9), (2, 9) ON CONFLICT DO NOTHING", "INSERT 0 2", "INSERT 0 2", "1:7:5 2:8:6 3:30:0"},
		{"DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 7), (4, 8)", "ZF002", "ZF002", ""},
		{"DELETE FROM t WHERE id < 3; INSERT INTO t (id, a) SELECT src.id - 4, 8 FROM src", "refused", "refused", ""},
		{"DELETE FROM t WHERE id < 3; WITH s AS (SELECT id - 4 AS id FROM src WHERE id < 7) INSERT INTO t (a, id) SELECT 8, s.id AS x FROM s UNION SELECT DISTINCT 9, 2 y FROM src WHERE false ORDER BY 2", "INSERT 0 2", "INSERT 0 2", "1:8:5 2:8:6 3:30:0"},
		{"WITH s AS (SELECT id - 2 AS id FROM src WHERE id < 7) INSERT INTO t (a, id) SELECT DISTINCT ON (s.id) 8, s.id FROM s", "ZF002", "ZF002", ""},
		{"DELETE FROM t WHERE id < 3; MERGE INTO t USING (SELECT id - 4 AS id FROM src WHERE id < 7) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (a, id) VALUES (9, s.id)", "MERGE 2", "MERGE 2", "1:9:5 2:9:6 3:30:0"},
		{"MERGE INTO t USING src ON t.id = src.id WHEN NOT MATCHED THEN INSERT (a, id) VALUES (9, src.id)", "ZF002", "ZF002", ""},
		{"DELETE FROM t WHERE id = 1; PREPARE pp AS INSERT INTO t VALUES ($1, $2), ($3, $4), ($5, $6); EXECUTE pp(1, 2, 3, 4, 1, 2)", "ZF002", "ZF002", ""},
		{"DELETE FROM t WHERE id < 3; PREPARE pp AS INSERT INTO t VALUES ($1, $2), ($3, $4); EXECUTE pp(1, 7, 2, 8); DEALLOCATE pp", "DEALLOCATE", "DEALLOCATE", "1:7:5 2:8:6 3:30:0"},
		{"INSERT INTO t (id) SELECT id ISNULL FROM src", "refused", "refused", ""},
		{"INSERT INTO part (id) VALUES ($1)", "refused", "refused", ""},
		// A * in front of the column stands for any number of values: which one is the column's, nobody can tell.
		{"INSERT INTO t (b, id, a) SELECT q.*, 1 FROM (SELECT 'x', 3) q", "refused", "refused", ""},
		{"INSERT INTO t (a, id, b) SELECT 7, 1, 'x' UNION SELECT q.*, 'y' FROM (SELECT 1, 3) q", "refused", "refused", ""},
		{"INSERT INTO t (b, id, a) SELECT (q.q).*, 1 FROM (SELECT ROW('x', 3) AS q) q", "refused", "refused", ""},
		{"INSERT INTO s2.t (a, id, b) VALUES (1, 2, 'x'), ((ROW(3, 1)::plain).*, 'y')", "refused", "refused", ""},
		{"INSERT INTO t (id, a) VALUES ((ROW(1, 3)::plain).*)", "refused", "refused", ""},
		{"MERGE INTO t USING (SELECT 'x', 3 AS i) s ON s.i = t.id WHEN NOT MATCHED THEN INSERT (b, id, a) VALUES (s.*, 1)", "refused", "refused", ""},
		{"INSERT INTO arr (xs, id[1], j) VALUES ('{}', 1, '1')", "refused", "refused", ""},
		{"DELETE FROM t WHERE id = 1; INSERT INTO t (id, a, b) SELECT 1, q.* FROM (SELECT 5, 'x') q", "INSERT 0 1", "INSERT 0 1", "1:5:5 2:20:0 3:30:0"},
		{"INSERT INTO t (a) VALUES (1)", "refused", "refused", ""},
		{"INSERT INTO t (id) VALUES (1 + 1)", "refused", "refused", ""},
		{"INSERT INTO t (a, id) VALUES (1, DEFAULT), (2, default)", "refused", "refused", ""},
		{"INSERT INTO t (id, tok) VALUES (1, 9)", "refused", "refused", ""},
		{"INSERT INTO ident DEFAULT VALUES", "refused", "refused", ""},
		{"COPY t FROM STDIN", "refused", "refused", ""},
		{"TRUNCATE t", "refused", "refused", ""},
		{"TRUNCATE src, ONLY t RESTART IDENTITY", "refused", "refused", ""},
		{"TRUNCATE src CASCADE", "refused", "refused", ""},
		{"UPDATE t SET a = 1 WHERE id = 3 RETURNING WITH (OLD AS o) o.a", "refused", "refused", ""}, // of PostgreSQL 18
		{"MERGE INTO t USING src ON t.id = src.id - 4 AND src.id < 8 WHEN MATCHED AND t.id < 3 THEN UPDATE SET a = 79", "MERGE 2", "MERGE 2", "1:79:5 2:79:6 3:30:0"},
		{"MERGE INTO t USING src ON t.id = src.id - 4 AND src.id < 8 WHEN MATCHED THEN DELETE", "ZF002", "MERGE 2", "3:30:0"},
	} {
		if !hasForm(conn, tt.sql) {
			continue
		}
		for mode, want := range map[OnStale]string{StaleReject: tt.reject, StaleRewrite: tt.rewrite} {
			a := newAnalyzer(t, scopeConfig(mode))
			var sc Scratch
			an := a.Analyze(&sc, []byte(tt.sql), Settings{})
			an = a.Analyze(&sc, []byte(tt.sql), Settings{})
			refused := strings.Contains(strings.Join(refusalsOf(an.Plan), ""), "ZF004")
			if refused || want == "refused" {
				if !refused || want != "refused" {
					t.Errorf("%v: %s: refused %v, want %s", mode, tt.sql, refused, want)
				}
				continue
			}
			run(t, conn, "BEGIN; SET LOCAL fence.token = 'jobs/1=5,other=99,jobs/2=6'; UPDATE t SET tok = 0; DELETE FROM t WHERE id > 3")
			if got := outcomeOf(conn, spliced(an, tt.sql)); got != want {
				t.Errorf("%v: %s\n %s\n %s, want %s", mode, tt.sql, spliced(an, tt.sql), got, want)
			}
			rows, _ := conn.PgConn().Exec(t.Context(), "SELECT string_agg(concat_ws(':', id, a, tok), ' ' ORDER BY id) FROM t").ReadAll()
			if len(rows) == 1 && len(rows[0].Rows) == 1 && tt.after != "" && string(rows[0].Rows[0][0]) != tt.after {
				if mode == StaleRewrite || want != "ZF002" {
					t.Errorf("%v: %s\n %s, want %s", mode, tt.sql, rows[0].Rows[0][0], tt.after)
				}
			}
			run(t, conn, "ROLLBACK; DEALLOCATE ALL")
		}
	}
}

// The copy of a parameter does not change its type.
func TestScopeKeepsTypes(t *testing.T) {
	conn, _ := rowConn(t)
	a := newAnalyzer(t, scopeConfig(StaleReject))
	var sc Scratch
	for _, sql := range []string{
		"INSERT INTO t VALUES ($1, $2, $3)", "INSERT INTO t (a, id) VALUES ($1, $2), ($3, $4), ($5, $6) RETURNING id", "INSERT INTO t (a, id, b) SELECT $1, $2, $3 FROM src",
		"INSERT INTO t (id, c) VALUES ($2, $1) ON CONFLICT (id) DO UPDATE SET c = t.c + $1", "INSERT INTO t (a, id) SELECT a, id FROM src UNION ALL SELECT $1, 7",
		"MERGE INTO t USING src ON t.id = src.id WHEN NOT MATCHED THEN INSERT (a, id) VALUES ($1, $2)", "UPDATE t SET a = $1 WHERE id = $2", "DELETE FROM t WHERE id = $1",
	} {
		an := a.Analyze(&sc, []byte(sql), Settings{})
		if !an.Spliced() {
			t.Errorf("%s is not spliced: %v", sql, an.Statements[0].Refuse)
			continue
		}
		if !hasForm(conn, sql) {
			continue
		}
		if d := describeBoth(conn, sql, spliced(an, sql)); d != "" {
			t.Errorf("%s\n %s\n %s", sql, spliced(an, sql), d)
		}
	}
}

func TestScopesAndRowTokensOfTheConfiguration(t *testing.T) {
	table := []string{"t"}
	for _, tt := range []struct {
		f    Fence
		want string // part of the error
	}{
		{Fence{Name: "f", Tables: table, RowToken: "tok"}, ""},
		{Fence{Name: "f/*/y", Tables: table, RowToken: `"Tok en"`, Scope: `f/{"Id x"}/y`}, ""},
		{Fence{Name: "g/*", Tables: table, RowToken: "tok", Scope: "f/{id}"}, "name"},
		{Fence{Name: "f", Tables: table, RowToken: "tok", Scope: "f/{id}"}, "name"},
		{Fence{Name: "f/*/*", Tables: table, RowToken: "tok"}, "more than one"},
		{Fence{Name: "f", Tables: table, OnStale: StaleRewrite}, "row_token"},
		{Fence{Name: "f", Tables: table, Scope: "f/{id}"}, "row_token"},
		{Fence{Name: "f", Tables: table, RowToken: "a.b"}, "row_token"},
		{Fence{Name: "f", Tables: table, RowToken: "tok en"}, "row_token"},
		{Fence{Name: "f'", Tables: table, RowToken: "tok"}, "SQL"},
		{Fence{Name: `f\`, Tables: table, RowToken: "tok"}, "SQL"},
		{Fence{Name: "f", Tables: table, RowToken: "tok", Scope: "f/id"}, "braces"},
		{Fence{Name: "f", Tables: table, RowToken: "tok", Scope: "f/}id{"}, "braces"},
		{Fence{Name: "f", Tables: table, RowToken: "tok", Scope: "f/{id}{id}"}, "braces"},
		{Fence{Name: "f", Tables: table, RowToken: "tok", Scope: "f/{}"}, "scope"},
		{Fence{Name: "f/*", Tables: table, RowToken: "tok", Scope: "f/{TOK}"}, "row token"},
		{Fence{Name: "f", Tables: table, RowToken: "tok", Scope: "f'/{id}"}, "SQL"},
		{Fence{Name: "f", Tables: []string{"s.*"}, RowToken: "tok"}, "names of the tables"},
	} {
		_, err := New(Config{Fences: []Fence{tt.f}})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%+v: %v, want %q", tt.f, err, tt.want)
		}
	}
}

// I1: a guard does not tell whose the rows are that a text writes which cannot be read. One without the words that rows are
// written with is guarded as ever, and so are all where no fence has a scope.
func TestI1UnreadableTextsAndScopes(t *testing.T) {
	long := "SELECT " + strings.Repeat("a + ", 200<<10) + "1"
	var sc Scratch
	for _, tt := range []struct {
		sql    string
		s      Settings
		refuse bool
	}{
		{"UPDATE t SET a = 1 WHERE id = 3 RETURNING WITH (OLD AS o) o.a", Settings{}, true},
		{"insert/**/INTO t (id) SELEC 3", Settings{}, true},
		{"(SELECT 1);DELETE-- x\nFRO t", Settings{}, true},
		{"COPY t FRO STDIN", Settings{}, true},
		{"MERGE INT t", Settings{}, true},
		{"truncate TABL t", Settings{}, true},
		{`CREATE TABLE x (); UPDATE t SET b = '\\'`, Settings{BackslashQuotes: true}, true},
		{"UPDATE t SET b = 'ä'", Settings{UnsafeEncoding: true}, true},
		{long + "; DELETE FROM t", Settings{}, true},
		{long, Settings{}, false},
		{"SELEC updated, x_delete_d FROM t", Settings{}, true}, // a word in a name: _ is no letter
		{"SELEC updated FROM t", Settings{}, false},
	} {
		for _, cfg := range []Config{scopeConfig(StaleReject), rowConfig(StaleReject), {Fences: []Fence{{Name: "f", Tables: []string{"t"}}}}} {
			st := newAnalyzer(t, cfg).Analyze(&sc, []byte(tt.sql), tt.s).Statements[0]
			if st.Effect != EffectUnknown || (st.Refuse != nil) != (tt.refuse && cfg.Fences[0].Scope != "") {
				t.Errorf("%.60s, scope %q: %+v", tt.sql, cfg.Fences[0].Scope, st.Refuse)
			}
		}
	}
}
