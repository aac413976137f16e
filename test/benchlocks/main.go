// Benchlocks prints the lock client's figures, for its etcd and PostgreSQL backends and for etcd's own concurrency.Mutex:
// what a free lock costs, how many tenures one lock sees when many want it, and how long nobody has it after its holder was
// killed. Commits wait for the disk on both servers, which run on this machine. At the end each target is PASS or FAIL.
//
//	go run ./test/benchlocks          some three minutes, on an otherwise idle machine
//	go run ./test/benchlocks -short   to see that it works; its figures say little
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

type plan struct {
	rounds     int           // of a measurement; services alternate
	tenures    int           // in one round of acquire and release
	contended  time.Duration // of one run with many contenders
	contenders []int
	holders    int // killed, for failover
}

func main() {
	etcdtest.Main() // returns unless this process is the etcd
	holderMain()    // returns unless this process is a holder to be killed
	short := flag.Bool("short", false, "little of everything")
	rounds := flag.Int("rounds", 5, "rounds of acquire and release")
	flag.Parse()
	p := plan{rounds: *rounds, tenures: 200, contended: 5 * time.Second, contenders: []int{1, 16, 1000}, holders: 12}
	if *short {
		p = plan{rounds: 1, tenures: 50, contended: time.Second, contenders: []int{1, 16}, holders: 2}
	}
	began := time.Now()
	ok, err := run(p)
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchlocks:", err)
		os.Exit(2)
	}
	fmt.Printf("\n%v\n", time.Since(began).Round(time.Second))
	if !ok && !*short { // a moment on a busy machine decides nothing
		os.Exit(1)
	}
}

func run(p plan) (ok bool, err error) {
	w, err := newServers(p)
	defer w.close()
	if err != nil {
		return false, err
	}
	var r results
	if r.free, err = w.free(p); err != nil {
		return false, err
	}
	if r.wanted, err = w.wanted(p); err != nil {
		return false, err
	}
	if r.orphaned, err = w.orphaned(p); err != nil {
		return false, err
	}
	r.table(os.Stdout, p)
	return r.judge(os.Stdout), nil
}
