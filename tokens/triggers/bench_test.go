package triggers

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkTrigger prints the processor time of the server's backend, in loops inside the server: cpu-us/op is that of an
// UPDATE by primary key, or of one row of an UPDATE of 1000 rows. free has no trigger, fenced the statement trigger,
// exposed the row trigger too, stamped that of row tokens.
func BenchmarkTrigger(b *testing.B) {
	w := shared(b, `
		CREATE TABLE free (id int PRIMARY KEY, v int, tok bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
		CREATE TABLE fenced (LIKE free INCLUDING ALL) WITH (fillfactor = 50);
		CREATE TABLE stamped (LIKE free INCLUDING ALL) WITH (fillfactor = 50);
		CREATE TABLE whole (id int PRIMARY KEY, v int, tok bigint NOT NULL DEFAULT 0) PARTITION BY RANGE (id);
		CREATE TABLE exposed PARTITION OF whole FOR VALUES FROM (0) TO (10000) WITH (fillfactor = 50)`)
	for _, table := range []string{"free", "fenced", "stamped", "exposed"} {
		w.su.must("INSERT INTO " + table + " SELECT i, 0 FROM generate_series(1, 1000) i")
	}
	c, rows := config("fenced", "exposed"), config("stamped")
	rows.Fences[0].RowToken = "tok"
	w.install(c)
	w.install(rows)
	for _, raw := range []string{"34", "x=1,f=34"} {
		a := w.dial("app").token(raw)
		for _, table := range []string{"free", "fenced", "exposed", "stamped"} {
			b.Run(fmt.Sprintf("token=%s/statement/%s", raw, table), func(b *testing.B) {
				a.measure(b, table, b.N, fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP UPDATE %s SET v = v + 1 WHERE id = i %% 1000 + 1; IF i %% 1000 = 0 THEN COMMIT; END IF; END LOOP; END $$", b.N, table))
			})
			b.Run(fmt.Sprintf("token=%s/row/%s", raw, table), func(b *testing.B) {
				n := b.N/1000 + 1
				a.measure(b, table, n*1000, fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP UPDATE %s SET v = v + 1; COMMIT; END LOOP; END $$", n, table))
			})
		}
	}
}

func (s *session) measure(b *testing.B, table string, n int, sql string) {
	s.must("VACUUM " + table)
	before := s.processorTime(b)
	s.must(sql)
	b.ReportMetric((s.processorTime(b)-before)*1e6/float64(n), "cpu-us/op")
	b.ReportMetric(0, "ns/op")
}

// processorTime of the session's backend on this machine, in seconds, to 10 ms.
func (s *session) processorTime(b *testing.B) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PgConn().PID()))
	if err != nil {
		b.Skip("needs /proc")
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}
