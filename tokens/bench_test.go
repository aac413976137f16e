package tokens

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkGuard prints cpu-us/guard: the processor time that one guard costs the server's backend, in a loop in
// PL/pgSQL; "nothing" is a call of a function that does nothing. Round trips are not in it.
func BenchmarkGuard(b *testing.B) {
	w := newWorld(b)
	f, other := w.fence(34), w.fence(1)
	id := w.id(f)
	a := w.dial("app")
	w.su.do("CREATE FUNCTION public.nothing(text, int4, text, int8, int8, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN $3; END'")
	for what, raw := range map[string]string{"bare": "34", "named": f + "=34", "second of two": other + "=1," + f + "=34"} {
		a.token(raw)
		for _, g := range []struct{ name, call string }{
			{"nothing", fmt.Sprintf("public.nothing('%s', %d, '%s', 0, 34, '%[1]s')", f, id, raw)},
			{"guard1", fmt.Sprintf("fence.guard1('%s', %d, '%s', 0, 34, '%[1]s')", f, id, raw)},
			{"guard", fmt.Sprintf("fence.guard(ARRAY['%s'], '%[1]s')", f)},
			{"guard_session", fmt.Sprintf("fence.guard_session('%s', true)", f)},
		} {
			b.Run(what+"/"+g.name, func(b *testing.B) {
				before := processorTime(b, a.pid)
				if got := a.do(fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP PERFORM %s; END LOOP; END $$", b.N, g.call)); got != "ok" {
					b.Fatal(got)
				}
				b.ReportMetric((processorTime(b, a.pid)-before)*1e6/float64(b.N), "cpu-us/guard")
			})
		}
	}
}

// processorTime of a process on this machine, in seconds, to 10 ms.
func processorTime(b *testing.B, pid int) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("needs /proc")
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}
