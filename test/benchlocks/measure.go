package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// cost of a free lock.
type cost struct {
	each   time.Duration // acquire and release, everything that they leave behind included
	caller time.Duration // what a caller waits, median
}

// free measures acquire and release of a lock that nobody else wants. Services alternate; medians of the rounds.
func (w *servers) free(p plan) (map[string]cost, error) {
	each, caller := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := range p.rounds {
		fmt.Fprintf(os.Stderr, "free lock, round %d\n", round+1)
		order := slices.Clone(services)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, service := range order {
			all, typical, err := w.freeRound(p, service)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", service, err)
			}
			each[service] = append(each[service], all)
			caller[service] = append(caller[service], typical)
		}
	}
	costs := map[string]cost{}
	for _, service := range services {
		costs[service] = cost{median(each[service]), median(caller[service])}
	}
	return costs, nil
}

func (w *servers) freeRound(p plan, service string) (each, caller time.Duration, err error) {
	l, err := open(service, w.url(service))
	if err != nil {
		return 0, 0, err
	}
	const name, ttl = "free", 10 * time.Second
	for range p.tenures / 10 {
		if err := l.tenure(background, name, ttl); err != nil {
			return 0, 0, err
		}
	}
	var waits []time.Duration
	began := time.Now()
	for range p.tenures {
		one := time.Now()
		if err := l.tenure(background, name, ttl); err != nil {
			return 0, 0, err
		}
		waits = append(waits, time.Since(one))
	}
	err = l.close()
	return time.Since(began) / time.Duration(p.tenures), median(waits), err
}

// wanted measures tenures per second of one lock that many want, who hold it for nothing. All contenders of a service
// share one client.
func (w *servers) wanted(p plan) (map[string]map[int]float64, error) {
	rates := map[string]map[int]float64{}
	for _, service := range services {
		rates[service] = map[int]float64{}
		for _, n := range p.contenders {
			fmt.Fprintf(os.Stderr, "%s, %d contenders\n", service, n)
			rate, err := w.contend(service, n, p.contended)
			if err != nil {
				return nil, fmt.Errorf("%s, %d contenders: %w", service, n, err)
			}
			rates[service][n] = rate
		}
	}
	return rates, nil
}

// mostWarmUp is for everybody to stand in line.
const mostWarmUp = 10 * time.Second

// contend counts tenures for a while, from when everybody has had the lock once, or has had time to stand in line.
func (w *servers) contend(service string, n int, during time.Duration) (perSecond float64, err error) {
	l, err := open(service, w.url(service))
	if err != nil {
		return 0, err
	}
	defer l.close()
	ctx, end := context.WithCancel(background)
	var (
		tenures  atomic.Int64
		failures = make(chan error, n)
		began    = make(chan struct{}, n)
		all      sync.WaitGroup
	)
	defer all.Wait()
	defer end()
	for i := range n {
		all.Go(func() {
			for first := true; ; first = false {
				err := l.tenure(ctx, fmt.Sprintf("wanted/%d", n), time.Minute)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					failures <- fmt.Errorf("contender %d: %w", i, err)
					return
				}
				tenures.Add(1)
				if first {
					began <- struct{}{}
				}
			}
		})
	}
	late := time.After(mostWarmUp)
	for waiting := n; waiting > 0; waiting-- {
		select {
		case <-began:
		case err := <-failures:
			return 0, err
		case <-late:
			waiting = 1
		}
	}
	before, from := tenures.Load(), time.Now()
	select {
	case err = <-failures:
	case <-time.After(during):
	}
	return float64(tenures.Load()-before) / time.Since(from).Seconds(), err
}

func median[T ~int64 | ~float64](list []T) T {
	list = slices.Sorted(slices.Values(list))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}
