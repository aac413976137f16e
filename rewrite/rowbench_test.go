package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// What row tokens cost per text on a hit: analysis and the spliced text. row_update is the figure "row rewrite hit",
// row_insert_1000 that of a bulk INSERT.
func BenchmarkSplice(b *testing.B) {
	for _, bm := range []struct{ name, sql string }{
		{"row_update_params", "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2"},
		{"row_update", "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = %d"},
		{"row_delete", "DELETE FROM pgbench_accounts WHERE aid = %d"},
		{"row_insert_1", "INSERT INTO pgbench_accounts (aid, bid, abalance, filler) VALUES (%d, 1, 2, 'x')"},
		{"row_insert_1000", "INSERT INTO pgbench_accounts (aid, bid, abalance, filler) VALUES " + strings.Repeat("(1, 2, 2.5, 'some text'), ", 999) + "(%d, 2, 2.5, 'some text')"},
	} {
		texts := make([][]byte, 64)
		for i := range texts {
			texts[i] = []byte(bm.sql)
			if strings.Contains(bm.sql, "%d") {
				texts[i] = fmt.Appendf(nil, bm.sql, i)
			}
		}
		for mode, name := range map[OnStale]string{StaleReject: "reject", StaleRewrite: "rewrite"} {
			a := newAnalyzer(b, Config{Fences: []Fence{{Name: "billing", Tables: []string{"pgbench_accounts"}, RowToken: "tok", OnStale: mode, BareToken: true}}})
			var sc Scratch
			var out []byte
			b.Run("hit/"+name+"/"+bm.name, func(b *testing.B) {
				a.Analyze(&sc, texts[0], Settings{})
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					sql := texts[i%len(texts)]
					an := a.Analyze(&sc, sql, Settings{})
					out = an.AppendSpliced(out[:0], sql, 0, len(sql))
				}
				if len(out) <= len(texts[0]) {
					b.Fatal("not spliced")
				}
			})
			b.Run("miss/"+name+"/"+bm.name, func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					if why := a.tokenize(&sc, texts[i%len(texts)]); why != "" {
						b.Fatal(why)
					}
					a.judge(texts[i%len(texts)], sc.tokens)
				}
			})
		}
	}
}
