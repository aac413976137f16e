package main

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

const module = "github.com/fenceproxy/fenceproxy/"

// rowTargets are what the proxy may spend on giving a text its row tokens when it knows the shape, in µs.
var rowTargets = []struct {
	benchmark, what string
	limit           float64
}{
	{"row_update", "row tokens into an UPDATE of one row, µs", 1},
	{"row_insert_1000", "row tokens into an INSERT of 1,000 rows, µs", 500},
}

// judgeRows runs the benchmark of row tokens in texts.
func judgeRows(out io.Writer) (ok bool) {
	b, err := benchmarks("rewrite", "Splice/hit", "0.2s")
	if err != nil {
		fmt.Fprintln(out, "FAIL  row tokens in texts:", err)
		return false
	}
	return judgeRowTimes(out, b)
}

var hitLine = regexp.MustCompile(`(?m)^BenchmarkSplice/hit/(\w+)/(\w+?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)

// judgeRowTimes takes the slower of the two modes.
func judgeRowTimes(out io.Writer, benchmarks string) (ok bool) {
	slowest := map[string]float64{}
	for _, m := range hitLine.FindAllStringSubmatch(benchmarks, -1) {
		ns, _ := strconv.ParseFloat(m[3], 64)
		slowest[m[2]] = max(slowest[m[2]], ns/1000)
	}
	ok = true
	for _, t := range rowTargets {
		us, measured := slowest[t.benchmark]
		if !measured {
			fmt.Fprintf(out, "FAIL  %s: not measured\n", t.what)
			ok = false
			continue
		}
		ok = verdict(out, nil, t.what, us, t.limit, false) && ok
	}
	return ok
}

var triggerLine = regexp.MustCompile(`(?m)^BenchmarkTrigger/token=(\S+)/(statement|row)/(\w+?)(?:-\d+)?\s.*?([0-9.]+) cpu-us/op`)

// triggerCost prints what triggers cost the server. There is no target: who installs them wants what they hold.
func triggerCost(out io.Writer) {
	b, err := benchmarks("tokens/triggers", "Trigger", "40000x")
	found := triggerLine.FindAllStringSubmatch(b, -1)
	if err != nil || len(found) == 0 {
		fmt.Fprintln(out, "      triggers: not measured:", err)
		return
	}
	fmt.Fprintln(out, "\ntriggers: µs of the server's CPU for an UPDATE of one row, and for one row of an UPDATE of 1,000")
	for _, m := range found {
		fmt.Fprintf(out, "      token %s, table %s, one %s: %s\n", m[1], m[3], m[2], m[4])
	}
}

func benchmarks(dir, pattern, length string) (string, error) {
	out, err := exec.Command("go", "test", "-run=^$", "-bench="+pattern, "-benchtime="+length, module+dir).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
