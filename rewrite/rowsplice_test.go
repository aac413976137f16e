package rewrite

import (
	"strings"
	"testing"

	pg "github.com/pganalyze/pg_query_go/v6"
)

func spliced(an Analysis, sql string) string {
	return string(an.AppendSpliced(nil, []byte(sql), 0, len(sql)))
}

func expand(s, row string) string {
	call := func(name, token string) string { return `fence.row_` + name + `("t"."tok", ` + token + `, 'jobs/*')` }
	return strings.NewReplacer("%T", sessionToken, "%F", `COALESCE("t"."tok", 0) OPERATOR(pg_catalog.<=) `+sessionToken,
		"%S", call("stamp", sessionToken), "%C", call("check", sessionToken),
		"%1T", `fence.row_fitting('jobs/*', true)`, "%1F", `fence.row_fits("tok", 'jobs/*', true)`,
		"%1S", `fence.row_claim("tok", 'jobs/*', true)`, "%1C", `fence.row_claim("tok", 'jobs/*', true) IS NOT NULL`).Replace(s)
}

// TestRowCasesAreSpliced compares what is spliced with the table, from the parser and from the cache.
func TestRowCasesAreSpliced(t *testing.T) {
	for mode, name := range map[OnStale]string{StaleReject: "reject", StaleRewrite: "rewrite"} {
		a := newAnalyzer(t, rowConfig(mode))
		var sc Scratch
		for _, c := range rowCases {
			for _, again := range []string{"", " (cached)"} {
				an := a.Analyze(&sc, []byte(c.sql), Settings{})
				got := spliced(an, c.sql)
				refused := ""
				for i := range an.Statements {
					if r := an.Statements[i].Refuse; r != nil {
						refused = r.Code
					}
				}
				if refused != c.refused {
					t.Errorf("%s%s: %s\n refused %q, want %q", name, again, c.sql, refused, c.refused)
				}
				want := c.rewrite
				if mode == StaleReject {
					want = c.reject
				}
				switch {
				case an.Failure != "":
					t.Errorf("%s%s: %s: %s", name, again, c.sql, an.Failure)
				case c.refused != "" || c.kept:
					if an.Spliced() || got != c.sql {
						t.Errorf("%s%s: %s\n is spliced: %s", name, again, c.sql, got)
					}
				case !an.Spliced() || an.Plain:
					t.Errorf("%s%s: %s\n is not spliced", name, again, c.sql)
				case want != "" && got != expand(want, "t"):
					t.Errorf("%s%s: %s\n got  %s\n want %s", name, again, c.sql, got, expand(want, "t"))
				}
				if len(got) != an.SplicedLen([]byte(c.sql)) {
					t.Errorf("%s: length %d, said %d", c.sql, len(got), an.SplicedLen([]byte(c.sql)))
				}
				if _, err := pg.Parse(got); err != nil {
					t.Errorf("%s%s: %s\n %v", name, again, got, err)
				}
			}
		}
	}
}
