// Bench prints this project's figures: transactions per second and proxy CPU time per transaction, by pgbench, for
// PostgreSQL directly, pgbouncer in session mode, fenceproxy without and with a fence on the table, with row tokens, and
// fencing written by hand. Routes alternate within each round and medians are compared. At the end each target is PASS or FAIL.
//
//	go run ./test/bench          some twelve minutes, on an otherwise idle machine
//	go run ./test/bench -short   half a minute, to see that it works; its figures say little
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	short := flag.Bool("short", false, "one short round at 8 clients")
	rounds := flag.Int("rounds", 3, "rounds per cell")
	seconds := flag.Int("seconds", 2, "length of one run")
	workloads := flag.String("workloads", "select,update", "of these, those to run")
	modes := flag.String("modes", "simple,prepared", "protocols of pgbench")
	clients := flag.String("clients", "1,8,32", "numbers of clients")
	fsync := flag.String("fsync", "on,off", "of the server")
	flag.Parse()
	plan := plan{rounds: *rounds, seconds: *seconds, scale: 10, workloads: strings.Split(*workloads, ","), modes: strings.Split(*modes, ",")}
	for _, v := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "bench: -clients: %q is no number of clients\n", v)
			os.Exit(2)
		}
		plan.clients = append(plan.clients, n)
	}
	for _, v := range strings.Split(*fsync, ",") {
		plan.durable = append(plan.durable, v == "on")
	}
	if *short {
		plan.rounds, plan.seconds, plan.clients, plan.scale = 1, 1, []int{8}, 1
	}
	began := time.Now()
	ok, err := run(plan)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	fmt.Printf("\n%v, %d rounds of %d s, medians\n", time.Since(began).Round(time.Second), plan.rounds, plan.seconds)
	if !ok && !*short { // one second on a busy machine decides nothing
		os.Exit(1)
	}
}

type plan struct {
	rounds, seconds, scale int
	clients                []int
	workloads, modes       []string
	durable                []bool
}

func run(p plan) (ok bool, err error) {
	var all []cell
	for _, durable := range p.durable {
		s, err := newSetting(p, durable)
		if err == nil {
			var cells []cell
			cells, err = s.measure(p)
			all = append(all, cells...)
		}
		s.close()
		if err != nil {
			return false, err
		}
	}
	table(os.Stdout, all)
	ok = judge(os.Stdout, all)
	ok = judgeAllocations(os.Stdout) && ok
	ok = judgeRows(os.Stdout) && ok
	triggerCost(os.Stdout)
	return ok, nil
}
