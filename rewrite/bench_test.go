package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// What the proxy pays per text: from a cache, and from the parser.
func BenchmarkAnalyze(b *testing.B) {
	row := "(1, 'some text', 2.5, now())"
	for _, bm := range []struct{ name, sql string }{
		{"begin", "BEGIN"},
		{"update_params", "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2"},
		{"update_literals", "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = %d"},
		{"select_literals", "SELECT abalance FROM pgbench_accounts WHERE aid = %d"},
		{"insert_1000_rows", "INSERT INTO t VALUES " + strings.Repeat(row+", ", 999) + "(%d, 'some text', 2.5, now())"},
	} {
		texts := make([][]byte, 64)
		for i := range texts {
			texts[i] = []byte(bm.sql)
			if strings.Contains(bm.sql, "%d") {
				texts[i] = fmt.Appendf(nil, bm.sql, i)
			}
		}
		a := newAnalyzer(b, fencesByName)
		var sc Scratch
		b.Run("hit/"+bm.name, func(b *testing.B) {
			a.Analyze(&sc, texts[0], Settings{})
			b.ReportAllocs()
			b.SetBytes(int64(len(texts[0])))
			for i := 0; b.Loop(); i++ {
				a.Analyze(&sc, texts[i%len(texts)], Settings{})
			}
		})
		b.Run("miss/"+bm.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(texts[0])))
			for i := 0; b.Loop(); i++ {
				if why := a.tokenize(&sc, texts[i%len(texts)]); why != "" {
					b.Fatal(why)
				}
				a.judge(texts[i%len(texts)], sc.tokens)
			}
		})
	}
}

func BenchmarkAnalyzeParallel(b *testing.B) {
	a := newAnalyzer(b, fencesByName)
	sql := []byte("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 2")
	b.RunParallel(func(pb *testing.PB) {
		var sc Scratch
		for pb.Next() {
			a.Analyze(&sc, sql, Settings{})
		}
	})
}
