package triggers

import (
	"fmt"
	"testing"
)

// BenchmarkTrigger prints what the triggers cost, in loops inside the server: us/op is a statement by primary key in a
// transaction of many, or a row of a statement of 1000 rows.
func BenchmarkTrigger(b *testing.B) {
	w := shared(b, `
		CREATE TABLE free (id int PRIMARY KEY, v int) WITH (fillfactor = 50);
		CREATE TABLE fenced (LIKE free INCLUDING ALL) WITH (fillfactor = 50);
		CREATE TABLE whole (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
		CREATE TABLE exposed PARTITION OF whole FOR VALUES FROM (0) TO (10000) WITH (fillfactor = 50);
		INSERT INTO free SELECT i, 0 FROM generate_series(1, 1000) i; INSERT INTO fenced SELECT * FROM free; INSERT INTO exposed SELECT * FROM free`)
	w.install(config("fenced", "exposed"))
	for _, raw := range []string{"34", "x=1,f=34"} {
		a := w.dial("app").token(raw)
		for _, table := range []string{"free", "fenced"} {
			b.Run(fmt.Sprintf("token %s/statement/%s", raw, table), func(b *testing.B) {
				a.must("VACUUM " + table)
				b.ResetTimer()
				a.must(fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP UPDATE %s SET v = v + 1 WHERE id = i %% 1000 + 1; IF i %% 1000 = 0 THEN COMMIT; END IF; END LOOP; END $$", b.N, table))
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "us/op")
			})
		}
		for _, table := range []string{"free", "fenced", "exposed"} {
			b.Run(fmt.Sprintf("token %s/row of 1000/%s", raw, table), func(b *testing.B) {
				a.must("VACUUM " + table)
				b.ResetTimer()
				a.must(fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP UPDATE %s SET v = v + 1; COMMIT; END LOOP; END $$", b.N/1000+1, table))
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64((b.N/1000+1)*1000), "us/op")
			})
		}
	}
}
