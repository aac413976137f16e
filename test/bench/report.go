package main

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"text/tabwriter"
)

// table prints the cells: transactions per second, and CPU per transaction of what stands between.
func table(out io.Writer, cells []cell) {
	fmt.Fprint(out, "\ntransactions per second, and in brackets µs of CPU per transaction of what stands between\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "workload\tfsync\tprotocol\tclients\tdirect\tpgbouncer\tunfenced\tfenced\trows\trows by hand\tby hand\t")
	for _, c := range cells {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t", c.workload, onOff(c.durable), c.mode, c.clients)
		for _, route := range []string{"direct", "pgbouncer", "unfenced", "fenced", "rows", "rows by hand", "by hand"} {
			r, ok := c.results[route]
			switch {
			case !ok:
				fmt.Fprint(w, "\t")
			case r.cpu > 0:
				fmt.Fprintf(w, "%.0f (%.1f)\t", r.tps, r.cpu)
			default:
				fmt.Fprintf(w, "%.0f\t", r.tps)
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// judge compares with the targets.
func judge(out io.Writer, cells []cell) (ok bool) {
	ok = true
	check := func(c *cell, what string, value, limit float64, atLeast bool) {
		ok = verdict(out, c, what, value, limit, atLeast) && ok
	}
	fmt.Fprintln(out)
	for i := range cells {
		c := &cells[i]
		limit := 1.7
		if c.clients == 1 {
			limit = 2.0
		}
		check(c, "proxy CPU per transaction / pgbouncer's", c.results["unfenced"].cpu/c.results["pgbouncer"].cpu, limit, false)
	}
	for i := range cells {
		c := &cells[i]
		if c.workload != "update" {
			continue
		}
		if c.clients == 8 && c.durable {
			check(c, "tps fenced / unfenced", c.results["fenced"].tps/c.results["unfenced"].tps, 0.85, true)
			check(c, "tps row tokens / unfenced", c.results["rows"].tps/c.results["unfenced"].tps, 0.90, true)
		}
		check(c, "tps fenced / fencing by hand", c.results["fenced"].tps/c.results["by hand"].tps, 1.3, true)
	}
	return ok
}

// judgeAllocations runs the benchmark of forwarding; not one message may cost an allocation.
func judgeAllocations(out io.Writer) (ok bool) {
	allocs, err := allocations()
	if err != nil {
		fmt.Fprintln(out, "FAIL  allocations per forwarded message:", err)
		return false
	}
	return verdict(out, nil, "allocations per forwarded message", allocs, 0, false)
}

// verdict prints one line.
func verdict(out io.Writer, c *cell, what string, value, limit float64, atLeast bool) (pass bool) {
	pass, sign := value <= limit, "<="
	if atLeast {
		pass, sign = value >= limit, ">="
	}
	word := "PASS"
	if !pass { // NaN, from a run that measured nothing, too
		word = "FAIL"
	}
	where := ""
	if c != nil {
		where = fmt.Sprintf("  %s, %s, %d clients, fsync %s", c.workload, c.mode, c.clients, onOff(c.durable))
	}
	fmt.Fprintf(out, "%s  %s: %.2f (%s %.2f)%s\n", word, what, value, sign, limit, where)
	return pass
}

var allocsPerOp = regexp.MustCompile(`(?m)^Benchmark\S*Forward\S*.*\s(\d+) allocs/op`)

// allocations runs the engine's own benchmarks of forwarding and returns the highest number of allocations.
func allocations() (highest float64, err error) {
	out, err := exec.Command("go", "test", "-run=^$", "-bench=Forward", "-benchmem", "-benchtime=20000x",
		"github.com/fenceproxy/fenceproxy/wire/relay").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	found := allocsPerOp.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		return 0, fmt.Errorf("no benchmark of forwarding in:\n%s", strings.TrimSpace(string(out)))
	}
	for _, m := range found {
		var n float64
		fmt.Sscan(m[1], &n)
		highest = max(highest, n)
	}
	return highest, nil
}
