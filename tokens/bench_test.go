package tokens

import (
	"fmt"
	"testing"
)

// BenchmarkGuard is the server's time for one guard in each form, measured inside the server: a loop in PL/pgSQL, less
// the loop's own cost. It prints us/guard.
func BenchmarkGuard(b *testing.B) {
	w := newWorld(b)
	f, other := w.fence(34), w.fence(1)
	m := Mark{ID: w.id(f), Name: f}
	a := w.dial("app")
	w.su.do("CREATE FUNCTION public.noop(text, int4, text, int8, int8, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN $3; END'")
	for _, raw := range []string{"34", f + "=34", other + "=1," + f + "=34"} {
		a.token(raw)
		lit := func(s string) string { return "'" + s + "'" }
		for _, g := range []struct{ name, call string }{
			{"a function that does nothing", fmt.Sprintf("PERFORM public.noop(%s, %d, %s, 0, 34, %s)", lit(f), m.ID, lit(raw), lit(f))},
			{"guard1", fmt.Sprintf("PERFORM fence.guard1(%s, %d, %s, 0, 34, %s)", lit(f), m.ID, lit(raw), lit(f))},
			{"guard", fmt.Sprintf("PERFORM fence.guard(ARRAY[%s], %s)", lit(f), lit(f))},
			{"guard_session", fmt.Sprintf("PERFORM fence.guard_session(%s, true)", lit(f))},
		} {
			b.Run(g.name+"/"+raw, func(b *testing.B) {
				var micros float64
				sql := fmt.Sprintf(`DO $$ DECLARE t timestamptz := clock_timestamp(); e interval; BEGIN
FOR i IN 1..%[1]d LOOP %[2]s; END LOOP; e := clock_timestamp() - t; t := clock_timestamp();
FOR i IN 1..%[1]d LOOP PERFORM 1; END LOOP; e := e - (clock_timestamp() - t);
PERFORM set_config('bench.us', (extract(epoch FROM e) * 1e6 / %[1]d)::text, false); END $$`, b.N, g.call)
				if got := a.do(sql); got != "ok" {
					b.Fatal(got)
				}
				a.QueryRow(ctx, "SELECT current_setting('bench.us')::float8").Scan(&micros)
				b.ReportMetric(micros, "us/guard")
			})
		}
	}
}
