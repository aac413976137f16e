package main

import (
	"strings"
	"testing"
)

func TestMedianOfRounds(t *testing.T) {
	for _, test := range []struct {
		tps  []float64
		want float64
	}{
		{[]float64{5}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 100, 2}, 3},
	} {
		var list []result
		for _, v := range test.tps {
			list = append(list, result{tps: v, cpu: -v})
		}
		if got := median(list); got.tps != test.want || got.cpu != -test.want {
			t.Errorf("%v: %v", test.tps, got)
		}
	}
}

// A target that is missed is said to be missed, and so is one that nothing was measured for.
func TestJudge(t *testing.T) {
	good := cell{workload: "update", mode: "simple", durable: true, clients: 8, results: map[string]result{
		"pgbouncer": {tps: 1000, cpu: 10}, "unfenced": {tps: 1000, cpu: 17}, "fenced": {tps: 850, cpu: 20}, "rows": {tps: 900, cpu: 20}, "by hand": {tps: 650},
	}}
	change := func(route string, r result) cell {
		c := good
		c.results = map[string]result{}
		for k, v := range good.results {
			c.results[k] = v
		}
		c.results[route] = r
		return c
	}
	for name, test := range map[string]struct {
		cell cell
		fail string
	}{
		"all met":             {good, ""},
		"too much CPU":        {change("unfenced", result{1000, 17.2}), "proxy CPU per transaction"},
		"row tokens too slow": {change("rows", result{899, 20}), "tps row tokens / unfenced"},
		"no row tokens":       {change("rows", result{}), "tps row tokens / unfenced"},
		"fences too slow":     {change("fenced", result{849, 20}), "tps fenced / unfenced"},
		"no better by hand":   {change("by hand", result{tps: 700}), "tps fenced / fencing by hand"},
		"nothing measured":    {change("pgbouncer", result{}), "proxy CPU per transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			ok := judge(&out, []cell{test.cell})
			if ok != (test.fail == "") {
				t.Errorf("judged %v:\n%s", ok, out.String())
			}
			if strings.Contains(out.String(), "FAIL") != (test.fail != "") || !strings.Contains(out.String(), "FAIL  "+test.fail) && test.fail != "" {
				t.Errorf("printed\n%s", out.String())
			}
		})
	}
}

func TestJudgeRowTimes(t *testing.T) {
	lines := func(update, insert string) string {
		return "BenchmarkSplice/hit/reject/row_update_params-2  100  9999999 ns/op\nBenchmarkSplice/hit/reject/row_update-2  100  300.5 ns/op\t 0 B/op\n" +
			"BenchmarkSplice/hit/rewrite/row_update  100  " + update + " ns/op\nBenchmarkSplice/hit/reject/row_insert_1000-2 7 " + insert + " ns/op\n"
	}
	for name, test := range map[string]struct {
		text, fail string
	}{
		"met": {lines("1000", "500000"), ""}, "update": {lines("1010", "1"), "UPDATE of one row"}, "insert": {lines("10", "501000"), "INSERT of 1,000 rows"},
		"nothing": {"", "UPDATE of one row"},
	} {
		var out strings.Builder
		if ok := judgeRowTimes(&out, test.text); ok != (test.fail == "") || test.fail != "" && !strings.Contains(out.String(), test.fail) || strings.Contains(out.String(), "FAIL") == ok {
			t.Errorf("%s: %v\n%s", name, ok, out.String())
		}
	}
}
