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
		"pgbouncer": {tps: 1000, cpu: 10}, "unfenced": {tps: 1000, cpu: 17}, "fenced": {tps: 850, cpu: 20}, "by hand": {tps: 650},
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
		"all met":           {good, ""},
		"too much CPU":      {change("unfenced", result{1000, 17.2}), "proxy CPU per transaction"},
		"fences too slow":   {change("fenced", result{849, 20}), "tps fenced / unfenced"},
		"no better by hand": {change("by hand", result{tps: 700}), "tps fenced / fencing by hand"},
		"nothing measured":  {change("pgbouncer", result{}), "proxy CPU per transaction"},
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
