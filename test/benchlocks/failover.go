package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// failoverTTL is the TTL of holders that are killed. The etcd of this benchmark grants it as asked.
const failoverTTL = 2 * time.Second

const holderVar = "BENCHLOCKS_HOLDER"

type holder struct{ Service, URL, Lock string }

// holderMain is a holder in a process of its own, which holds until it is killed.
func holderMain() {
	text := os.Getenv(holderVar)
	if text == "" {
		return
	}
	var h holder
	err := json.Unmarshal([]byte(text), &h)
	var l locker
	if err == nil {
		l, err = open(h.Service, h.URL)
	}
	if err == nil {
		_, err = l.lock(background, h.Lock, failoverTTL)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
		os.Exit(1)
	}
	fmt.Println("held")
	select {}
}

// start runs the holder until it holds.
func (h holder) start() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), holderVar+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := pgtest.StartWithParent(cmd); err != nil {
		return nil, err
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("the holder did not get the lock: %q %w", said, err)
	}
	return cmd, nil
}

// orphaned measures from kill -9 of a holder to the next one's lease. The holders of one service are killed at different
// moments between two renewals.
func (w *servers) orphaned(p plan) (map[string][]time.Duration, error) {
	out := map[string][]time.Duration{}
	for _, service := range services {
		fmt.Fprintf(os.Stderr, "%s, %d holders killed\n", service, p.holders)
		l, err := open(service, w.url(service))
		if err != nil {
			return nil, err
		}
		took, failed := make([]time.Duration, p.holders), make([]error, p.holders)
		var all sync.WaitGroup
		for i := range p.holders {
			all.Go(func() {
				h := holder{service, w.url(service), fmt.Sprintf("orphan/%d", i)}
				took[i], failed[i] = h.failover(l, failoverTTL*time.Duration(i)/time.Duration(3*p.holders))
			})
		}
		all.Wait()
		l.close()
		for _, err := range failed {
			if err != nil {
				return nil, fmt.Errorf("%s: %w", service, err)
			}
		}
		slices.Sort(took)
		out[service] = took
	}
	return out, nil
}

// failover queues behind the holder, waits until it has renewed its lock, and for a part of the time to its next renewal,
// and kills it.
func (h holder) failover(next locker, after time.Duration) (time.Duration, error) {
	cmd, err := h.start()
	if err != nil {
		return 0, err
	}
	type granted struct {
		at  time.Time
		err error
	}
	got := make(chan granted, 1)
	go func() {
		release, err := next.lock(background, h.Lock, failoverTTL)
		g := granted{time.Now(), err}
		if err == nil {
			g.err = release()
		}
		got <- g
	}()
	time.Sleep(failoverTTL + after) // longer than a TTL: the holder lives by its renewals, and the next one stands in line
	killed := time.Now()
	cmd.Process.Kill()
	g := <-got
	cmd.Wait()
	if took := g.at.Sub(killed); g.err != nil || took > 0 {
		return took, g.err
	}
	return 0, fmt.Errorf("the lock passed on while its holder lived")
}
