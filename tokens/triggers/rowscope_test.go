package triggers

import "testing"

const scopedTable = `CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL DEFAULT 0, "Tok" bigint NOT NULL DEFAULT 0);
	INSERT INTO t VALUES (1, 0, 0), (2, 0, 40), (3, 0, 0)`

// I1: the row's own column tells whose it is, also past the proxy. The session has tokens for scoped/1 and scoped/2.
func TestI1RowTokensOfAScope(t *testing.T) {
	for _, mode := range []string{"reject", "rewrite"} {
		w := shared(t, scopedTable)
		c := config("t")
		c.Fences[0].Name, c.Bare = "scoped/*", ""
		c.Fences[0].RowToken, c.Fences[0].Rewrite = "Tok", mode == "rewrite"
		c.Fences[0].Scope, c.Fences[0].ScopeColumn = "scoped/{}", "id"
		w.install(c)
		if p := w.compare(c); len(p.Steps) > 0 || states(p) != "" {
			t.Errorf("%+v", p)
		}
		for _, name := range []string{"scoped/1", "scoped/2"} {
			w.su.must("SELECT fence.raise('" + name + "', 0, 34, 'seed', NULL)")
		}
		a := w.dial("app").token("scoped/1=34,scoped/2=34")
		if mode == "reject" {
			a.must("SELECT fence.guard_pattern('scoped/*', '', false)")
		}
		for _, tt := range []struct{ sql, reject, rewrite, rows string }{
			{"UPDATE t SET v = 1 WHERE id = 1", "ok", "ok", "ok:1:1:34 2:0:40 3:0:0"},
			{"UPDATE t SET v = 1 WHERE id = 2", "ZF001", "ok", "ok:1:0:0 2:0:40 3:0:0"},
			{"UPDATE t SET v = 1 WHERE id = 3", "ZF002", "ok", "ok:1:0:0 2:0:40 3:0:0"},
			{"DELETE FROM t WHERE id = 1", "ok", "ok", "ok:2:0:40 3:0:0"},
			{"DELETE FROM t WHERE id = 2", "ZF001", "ok", "ok:1:0:0 2:0:40 3:0:0"},
			{"DELETE FROM t WHERE id = 3", "ZF002", "ok", "ok:1:0:0 2:0:40 3:0:0"},
			{"UPDATE t SET id = 4 WHERE id = 1", "ZF002", "ZF002", "ok:1:0:0 2:0:40 3:0:0"},
			{"UPDATE t SET id = 1 WHERE id = 3", "ZF002", "ok", "ok:1:0:0 2:0:40 3:0:0"},
			{"INSERT INTO t (id) VALUES (4)", "ZF002", "ZF002", "ok:1:0:0 2:0:40 3:0:0"},
			{"DELETE FROM t WHERE id = 1; INSERT INTO t (id) VALUES (1)", "ok", "ok", "ok:1:0:34 2:0:40 3:0:0"},
			{`UPDATE t SET v = 1, "Tok" = 34 WHERE id = 1`, "ok", "ok", "ok:1:1:34 2:0:40 3:0:0"},
			{`INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 5`, "ok", "ok", "ok:1:5:34 2:0:40 3:0:0"},
			{`INSERT INTO t (id) VALUES (3) ON CONFLICT (id) DO UPDATE SET v = 5`, "ZF002", "ZF002", "ok:1:0:0 2:0:40 3:0:0"},
		} {
			want := tt.reject
			if mode == "rewrite" {
				want = tt.rewrite
			}
			a.must("BEGIN; SAVEPOINT s")
			expect(t, mode+": "+tt.sql, a.do(tt.sql), want)
			if want != "ok" {
				a.must("ROLLBACK TO s")
			}
			expect(t, mode+": "+tt.sql+": rows", a.do(tokensOf), tt.rows)
			a.must("ROLLBACK")
		}
		// Without the scope it is another trigger.
		c.Fences[0].Scope, c.Fences[0].ScopeColumn = "", ""
		if p := w.compare(c); len(p.Steps) != 1 {
			t.Errorf("%+v", p)
		}
	}
}

// Names are compared as they are written, whatever the column's collation says that is equal.
func TestI1RowTokensOfAScopeOfAnotherCollation(t *testing.T) {
	w := shared(t, `CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		CREATE TABLE t (id text COLLATE ci PRIMARY KEY, v int, tok bigint); INSERT INTO t VALUES ('x')`)
	c := config("t")
	c.Fences[0].Name, c.Bare = "scoped/*", ""
	c.Fences[0].RowToken, c.Fences[0].Rewrite = "tok", true
	c.Fences[0].Scope, c.Fences[0].ScopeColumn = "scoped/{}", "id"
	w.install(c)
	for _, name := range []string{"scoped/x", "scoped/X"} {
		w.su.must("SELECT fence.raise('" + name + "', 0, 34, 'seed', NULL)")
	}
	a := w.dial("app")
	for _, tt := range []struct{ token, sql, want, rows string }{
		{"scoped/X=34", "UPDATE t SET v = 1 WHERE id = 'X'", "ok", "ok:x::"},
		{"scoped/x=34", "UPDATE t SET v = 1 WHERE id = 'X'", "ok", "ok:x:1:34"},
		{"scoped/X=35", "INSERT INTO t (id) VALUES ('X') ON CONFLICT (id) DO UPDATE SET v = 2", "ok", "ok:x:1:34"},
		{"scoped/X=35", "DELETE FROM t", "ok", "ok:x:1:34"},
		{"scoped/x=35", "DELETE FROM t", "ok", "ok"},
	} {
		a.token(tt.token)
		expect(t, tt.token+": "+tt.sql, a.do(tt.sql), tt.want)
		expect(t, tt.token+": "+tt.sql+": rows", a.do("SELECT string_agg(id || ':' || coalesce(v::text, '') || ':' || coalesce(tok::text, ''), ' ') FROM t"), tt.rows)
	}
}
