package tokens

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What a row is stamped with: the session's one token for the pattern.
func TestRowToken(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	const star, one = "'jobs/*', false", "'billing', true"
	for _, tt := range []struct{ raw, args, want string }{
		{"34", one, "ok:34"}, {" 34 ", one, "ok:34"}, {"0034", one, "ok:34"}, {"1.34", one, "ok:281474976710690"}, {"billing=34", one, "ok:34"},
		{"billing = 34", one, "ok:34"}, {"x=1,billing=2.3", one, "ok:562949953421315"}, {"x=1,5", one, "ok:5"}, {"0", one, "ok:0"}, {"00000000000000000034", one, "ZF003"},
		{"billing=34,35", one, "ZF003"}, {"34", "'billing', false", "ZF002"}, {"xbilling=34", one, "ZF002"}, {"billing2=34", one, "ZF002"},
		{"jobs/42=35", star, "ok:35"}, {"jobs/42=1.35", star, "ok:281474976710691"}, {"jobs/42=35,billing=1", star, "ok:35"}, {"jobs/=35", star, "ZF002"},
		{"jobs/42=35,jobs/43=36", star, "ZF003"}, {"jobs=35", star, "ZF002"}, {"34", star, "ZF002"}, {"34", "'jobs/*', true", "ok:34"}, {"34,jobs/42=35", "'jobs/*', true", "ZF003"},
		{"a/7/z=3", "'a/*/z', false", "ok:3"}, {"a//z=3", "'a/*/z', false", "ZF002"}, {"a/z=3", "'a/*/z', false", "ZF002"},
		{"", one, "ZF002"}, {"  ", one, "ZF002"}, {"x", one, "ZF003"}, {"-1", one, "ZF003"}, {"billing=", one, "ZF003"}, {"=34", one, "ZF003"}, {"bil ling=34", one, "ZF003"},
		{"281474976710655", one, "ok:281474976710655"}, {"281474976710656", one, "ZF003"}, {"32767.281474976710655", one, "ok:9223372036854775807"}, {"32768.0", one, "ZF003"},
	} {
		a.token(tt.raw)
		expect(t, tt.raw+" for "+tt.args, a.do("SELECT fence.row_token("+tt.args+")"), tt.want)
		want := tt.want
		if want == "ZF002" {
			want = "ok:0"
		}
		expect(t, tt.raw+" as default for "+tt.args, a.do("SELECT fence.row_default("+tt.args+")"), want)
		fits := tt.want
		if value, ok := strings.CutPrefix(tt.want, "ok:"); ok {
			fits = "ok:" + value + " true true false"
			if value == "9223372036854775807" {
				continue
			}
			expect(t, tt.raw+" fits for "+tt.args, a.do(fmt.Sprintf("SELECT %[1]s || concat_ws(' ', '', fence.row_fits(%[1]s, %[2]s)::text, fence.row_fits(NULL, %[2]s)::text, fence.row_fits(%[1]s + 1, %[2]s)::text)", value, tt.args)), fits)
			continue
		}
		expect(t, tt.raw+" fits for "+tt.args, a.do("SELECT fence.row_fits(0, "+tt.args+")"), fits)
	}
	expect(t, "text", a.do("SELECT fence.row_text(281474976710690) || ' ' || fence.row_text(34)"), "ok:1.34 34")
}

// Row tokens order as tokens do, and read back as they were.
func TestRowTokenOrder(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	r := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		x := Token{Epoch: r.Int64N(3) * r.Int64N(10000), Counter: r.Int64N(1 << r.IntN(48))}
		y := Token{Epoch: x.Epoch + r.Int64N(2), Counter: r.Int64N(1 << 20)}
		value := func(k Token) string {
			a.token(k.String())
			return strings.TrimPrefix(a.do("SELECT fence.row_token('f', true)"), "ok:")
		}
		got := a.do(fmt.Sprintf("SELECT (%s < %s)::text || ' ' || fence.row_text(%[1]s)", value(x), value(y)))
		if want := fmt.Sprintf("ok:%t %s", x.Compare(y) < 0, x); got != want {
			t.Errorf("%v and %v: %s, want %s", x, y, got, want)
		}
	}
}

// The way without the parser gives what the parser gives.
func TestRowTokenFastPath(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	r := rand.New(rand.NewPCG(5, 5))
	parts := []string{"billing", "jobs/42", "jobs/", "=", "=", ",", ".", "34", "0", " ", "\t", "'", "*", "99999999999999", "7"}
	// What statements call gives the token, if a row passes that has it already, and not one that has the next. @ stands
	// for the arguments.
	forms := map[string]string{
		"token": "fence.row_token(@)", "claim": "fence.row_claim(NULL, @)", "claim of its own": "fence.row_claim(fence.row_token_of(@), @)",
		"claim of the next": "fence.row_claim(fence.row_token_of(@) + 1, @)",
		"fits":              "CASE WHEN fence.row_fits(NULL, @) AND fence.row_fits(fence.row_token_of(@), @) AND NOT fence.row_fits(fence.row_token_of(@) + 1, @) THEN fence.row_fitting(@) END",
	}
	scopeForms := map[string]string{
		"claim": "fence.row_scope_claim(NULL, @)", "claim of its own": "fence.row_scope_claim(fence.row_scoped(fence.row_scope(@)), @)",
		"claim of the next": "fence.row_scope_claim(fence.row_scoped(fence.row_scope(@)) + 1, @)",
		"fits":              "CASE WHEN fence.row_scope_fits(NULL, @) AND fence.row_scope_fits(fence.row_scoped(fence.row_scope(@)), @) AND NOT fence.row_scope_fits(fence.row_scoped(fence.row_scope(@)) + 1, @) THEN fence.row_scope_fitting(@) END",
	}
	const none = "ok:<nil>"
	same := func(raw, args, parser string, forms map[string]string) {
		slow := a.do("SELECT " + strings.ReplaceAll(parser, "@", args))
		for form, call := range forms {
			want := slow
			switch {
			case slow == none && !strings.HasPrefix(call, "CASE"):
				want = "ZF002"
			case strings.HasPrefix(slow, "ok:") && form == "claim of the next":
				want = "ZF001"
			}
			if got := a.do("SELECT " + strings.ReplaceAll(call, "@", args)); got != want && !(slow == none && got == "ZF002") {
				t.Errorf("%q for %s, %s: %s, by the parser %s", raw, args, form, got, slow)
			}
		}
	}
	heads := []string{"", "billing=", "jobs/42=", "jobs/4,2=", "jobs/*=", "jobs/$;=", `jobs/\=`, "jobs/=", "="} // near the plain forms
	for i := range 1000 {
		raw := ""
		if i%2 == 0 {
			raw = heads[r.IntN(len(heads))]
		}
		for range 1 + r.IntN(6-3*(1-i%2)) {
			raw += parts[r.IntN(len(parts))]
		}
		a.token(raw)
		for _, args := range []string{"'billing', true", "'jobs/*', false"} {
			if fast, slow := a.do("SELECT fence.row_find("+args+")"), a.do("SELECT fence.row_token_of("+args+")"); fast != slow {
				t.Errorf("%q for %s: %s, by the parser %s", raw, args, fast, slow)
			}
			same(raw, args, "fence.row_token_of(@)", forms)
		}
		id := []string{"42", "42", "4,2", "", "*", "$;", "42="}[r.IntN(7)]
		same(raw, "'jobs/{}', '"+id+"'", "fence.row_scoped(fence.row_scope(@))", scopeForms)
	}
}

// The token is the one of the moment: a prepared statement does not freeze it.
func TestRowTokenIsNotPlanned(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	a.must("CREATE TEMP TABLE r (id int, tok int8)")
	a.must("SET plan_cache_mode = force_generic_plan")
	a.must("PREPARE p AS INSERT INTO r VALUES (1, fence.row_token('f', true)), (2, (SELECT fence.row_token('f', true)))")
	for i := range 8 {
		a.token(100 + i)
		a.must("EXECUTE p")
	}
	expect(t, "stamps", a.do("SELECT string_agg(tok::text, ',' ORDER BY tok, id) FROM r"), "ok:100,100,101,101,102,102,103,103,104,104,105,105,106,106,107,107")
}

func TestRowChecks(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	for _, tt := range []struct{ args, stamp, check string }{
		{"33, 34, 'f'", "ok:34", "ok:true"}, {"34, 34, 'f'", "ok:34", "ok:true"}, {"NULL, 34, 'f'", "ok:34", "ok:true"},
		{"35, 34, 'f'", "ZF001", "ZF001"}, {"35, NULL, 'f'", "ZF002", "ZF002"}, {"NULL, NULL, 'f'", "ZF002", "ZF002"},
	} {
		expect(t, tt.args, a.do("SELECT fence.row_stamp("+tt.args+")"), tt.stamp)
		expect(t, tt.args, a.do("SELECT fence.row_check("+tt.args+")"), tt.check)
	}
	_, err := a.Exec(ctx, "SELECT fence.row_check(281474976710690, 7, 'jobs/42')")
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Detail != `Fence "jobs/42": token of the session 7, token of the row 1.34.` || e.Hint == "" {
		t.Errorf("%+v", e)
	}
	a.token("jobs/42=5,jobs/43=1.6")
	expect(t, "scope", a.do("SELECT fence.row_scope('jobs/{}', '42') || fence.row_scope('{}x', 'a')"), "ok:jobs/42ax")
	expect(t, "scoped", a.do("SELECT fence.row_scoped('jobs/43')::text || coalesce(fence.row_scoped('jobs/44')::text, '-') || coalesce(fence.row_scoped('jobs/*')::text, '-')"), "ok:281474976710662--")
	expect(t, "new", a.do("SELECT fence.row_new('jobs/42')"), "ok:5")
	expect(t, "new of another", a.do("SELECT fence.row_new('jobs/44')"), "ZF002")
	expect(t, "new of none", a.do("SELECT fence.row_new(NULL)"), "ZF002")
}

// I2: the guard of a pattern is the guard of each token of the session that matches.
func TestGuardPattern(t *testing.T) {
	w := newWorld(t)
	a, other := w.dial("app"), w.dial("postgres")
	f := w.fence(-1)
	w.set(f+"/1", 34)
	w.set(f+"/2", 35)
	w.set(f, 40)
	for _, tt := range []struct{ raw, want, named string }{
		{"F/1=34", "ok", "ok"}, {"F/1=34,F/2=35", "ok", "ok"}, {"F/1=33", "ZF001", "ZF001"}, {"F/1=34,F/2=34", "ZF001", "ZF001"}, {"F/1=35", "ZF006", "ZF006"},
		{"F/3=1", "ZF006", "ZF006"}, {"", "ZF002", "ok"}, {"x=1", "ZF002", "ok"}, {"34", "ZF003", "ok"}, {"F=40", "ZF002", "ok"}, {"x", "ZF003", "ZF003"},
	} {
		a.token(strings.ReplaceAll(tt.raw, "F", f))
		for named, want := range map[bool]string{false: tt.want, true: tt.named} {
			got, _, _ := strings.Cut(a.do("SELECT fence.guard_pattern($1, $2, $3)", f+"/*", f+"/*", named), ":")
			expect(t, fmt.Sprintf("%s, named %t", a.raw, named), got, want)
		}
	}
	for raw, want := range map[string]string{"F=40": "ok", "40": "ok", "F=39": "ZF001", "39": "ZF001"} {
		a.token(strings.ReplaceAll(raw, "F", f))
		got, _, _ := strings.Cut(a.do("SELECT fence.guard_pattern($1, $1, false)", f), ":")
		expect(t, a.raw+" without a star", got, want)
	}
	a.token(f + "/2=35," + f + "/1=34")
	a.must("BEGIN")
	a.must("SELECT fence.guard_pattern($1, '', true)", f+"/*")
	expect(t, "locks", other.do("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = $1", a.pid), "ok:2")
	a.must("ROLLBACK")
}

// BenchmarkRowTokens prints what row tokens cost the server, as us/row of statements of 1000 rows and us/statement of one.
func BenchmarkRowTokens(b *testing.B) {
	w := newWorld(b)
	a := w.dial("app")
	a.must("CREATE TEMP TABLE r (id int PRIMARY KEY, v int, tok int8 NOT NULL DEFAULT 0) WITH (fillfactor = 50)")
	a.must("INSERT INTO r SELECT i, 0 FROM generate_series(1, 1000) i")
	const once = "(SELECT fence.row_token('jobs/*', true))"
	set := map[string]string{
		"plain": "", "reject": "tok = fence.row_stamp(r.tok, " + once + ", 'jobs/*'), ", "rewrite": "tok = " + once + ", ",
	}
	where := map[string]string{"rewrite": " AND COALESCE(r.tok, 0) OPERATOR(pg_catalog.<=) " + once}
	// The forms of statements that look for rows by a column.
	setFew := map[string]string{"plain": "", "reject": "tok = fence.row_claim(tok, 'jobs/*', true), ", "rewrite": "tok = fence.row_fitting('jobs/*', true), "}
	whereFew := map[string]string{"rewrite": " AND fence.row_fits(tok, 'jobs/*', true)"}
	values := func(stamp string) string { return strings.Repeat(", (1, 2"+stamp+")", 1000)[2:] }
	for _, raw := range []string{"34", "jobs/42=34"} {
		a.token(raw)
		for _, mode := range []string{"plain", "reject", "rewrite"} {
			b.Run(raw+"/update_1/"+mode, func(b *testing.B) {
				for b.Loop() {
					a.must("UPDATE r SET " + setFew[mode] + "v = v + 1 WHERE id = 7" + whereFew[mode])
				}
			})
			b.Run(raw+"/update_1000/"+mode, func(b *testing.B) {
				for b.Loop() {
					a.must("UPDATE r SET " + set[mode] + "v = v + 1 WHERE true" + where[mode])
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "us/row")
			})
		}
		a.must("CREATE TEMP TABLE IF NOT EXISTS n (id int, v int, tok int8 DEFAULT 0)")
		for _, mode := range []string{"plain", "stamped"} {
			stamp := map[string]string{"stamped": ", fence.row_token('jobs/*', true)", "plain": ", 34"}[mode]
			b.Run(raw+"/insert_1000/"+mode, func(b *testing.B) {
				sql := "INSERT INTO n VALUES " + values(stamp)
				for b.Loop() {
					a.must(sql)
					a.must("TRUNCATE n")
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "us/row")
			})
		}
	}
}
