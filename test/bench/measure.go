package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// route is a way from pgbench to the server.
type route struct {
	name    string
	address string // URL without the database
	script  string // "" for the cell's own
	token   bool
	pid     int // of what stands between, 0 for nothing
}

func (s *setting) routes(workload string) []route {
	list := []route{
		{name: "direct", address: s.cluster.Addr()},
		{name: "pgbouncer", address: s.bouncer.Addr(), pid: s.bouncer.Pid()},
		{name: "unfenced", address: s.unfenced.Addr(), pid: s.unfenced.Pid()},
	}
	if workload == "update" {
		list = append(list,
			route{name: "fenced", address: s.fenced.Addr(), token: true, pid: s.fenced.Pid()},
			route{name: "rows", address: s.rows.Addr(), token: true, pid: s.rows.Pid()},
			route{name: "rows by hand", address: s.unfenced.Addr(), script: "rows by hand", pid: s.unfenced.Pid()},
			route{name: "by hand", address: s.cluster.Addr(), script: "by hand"})
	}
	return list
}

// cell is one line of the table: a workload, protocol and number of clients, on all routes.
type cell struct {
	workload, mode string
	durable        bool
	clients        int
	results        map[string]result // by route
}

type result struct {
	tps float64
	cpu float64 // µs per transaction of what stands between; 0 for nothing
}

func (s *setting) measure(p plan) ([]cell, error) {
	workloads := slices.Clone(p.workloads)
	if !s.durable && len(p.durable) > 1 { // reading does not depend on fsync
		workloads = slices.DeleteFunc(workloads, func(w string) bool { return w == "select" })
	}
	var cells []cell
	for _, workload := range workloads {
		for _, mode := range p.modes {
			for _, clients := range p.clients {
				c := cell{workload: workload, mode: mode, durable: s.durable, clients: clients, results: map[string]result{}}
				fmt.Fprintf(os.Stderr, "%s, %s, %d clients, fsync %v\n", workload, mode, clients, s.durable)
				runs := map[string][]result{}
				for round := range p.rounds {
					routes := s.routes(workload)
					if round%2 == 1 {
						slices.Reverse(routes)
					}
					for _, r := range routes {
						one, err := s.pgbench(p, c, r)
						if err != nil {
							return nil, fmt.Errorf("%s, %s, %s, %d clients: %w", r.name, workload, mode, clients, err)
						}
						runs[r.name] = append(runs[r.name], one)
					}
				}
				for name, list := range runs {
					c.results[name] = median(list)
				}
				cells = append(cells, c)
			}
		}
	}
	return cells, nil
}

func median(list []result) result {
	pick := func(f func(result) float64) float64 {
		var values []float64
		for _, r := range list {
			values = append(values, f(r))
		}
		slices.Sort(values)
		return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	}
	return result{pick(func(r result) float64 { return r.tps }), pick(func(r result) float64 { return r.cpu })}
}

var (
	tpsLine       = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without`)
	processedLine = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
)

func (s *setting) pgbench(p plan, c cell, r route) (result, error) {
	script := c.workload
	if r.script != "" {
		script = r.script
	}
	cmd := exec.Command(s.cluster.Program("pgbench"), "-n", "-M", c.mode, "-c", strconv.Itoa(c.clients),
		"-j", strconv.Itoa(min(c.clients, 2)), "-T", strconv.Itoa(p.seconds), "-D", "scale="+strconv.Itoa(p.scale),
		"-f", filepath.Join(s.dir, script), "postgres://postgres@"+r.address+"/"+database+"?sslmode=disable")
	cmd.Env = append(os.Environ(), "PGOPTIONS=")
	if r.token {
		cmd.Env = append(os.Environ(), "PGOPTIONS=-c fence.token="+token)
	}
	before, err := cpu(r.pid)
	if err != nil {
		return result{}, err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("%w\n%s", err, out)
	}
	after, err := cpu(r.pid)
	if err != nil {
		return result{}, err
	}
	tps, processed := tpsLine.FindSubmatch(out), processedLine.FindSubmatch(out)
	if tps == nil || processed == nil {
		return result{}, fmt.Errorf("unexpected output of pgbench:\n%s", out)
	}
	perSecond, err := strconv.ParseFloat(string(tps[1]), 64)
	if err != nil {
		return result{}, err
	}
	n, err := strconv.ParseFloat(string(processed[1]), 64)
	if err != nil || n == 0 {
		return result{}, fmt.Errorf("no transaction: %w", err)
	}
	return result{perSecond, float64((after - before).Nanoseconds()) / 1000 / n}, nil
}

func cpu(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	return proxytest.CPU(pid)
}
