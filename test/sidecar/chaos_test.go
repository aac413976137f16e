package sidecar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fault is what was done to a program of a pod.
type fault struct {
	at     time.Time
	pod    string
	part   string // sidecar or writer
	signal syscall.Signal
}

// chaos hurts pods, and knows afterwards what it has done.
type chaos struct {
	random *rand.Rand
	pods   []*pod
	record *record

	mu     sync.Mutex
	faults []fault
}

// hit sends a signal to parts of a pod: "writer", "sidecar" or both ("pod").
func (c *chaos) hit(p *pod, parts string, s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, part := range []struct {
		name    string
		program *program
	}{{"writer", p.writer}, {"sidecar", p.sidecar}} {
		if parts != part.name && parts != "pod" {
			continue
		}
		at := time.Now()
		if part.program.signal(s) {
			c.faults = append(c.faults, fault{at, p.name, part.name, s})
		}
	}
}

// hurt kills parts of a pod, or freezes them for a while.
func (c *chaos) hurt(p *pod) {
	parts := []string{"writer", "sidecar", "sidecar", "pod", "pod"}[c.random.IntN(5)]
	if c.random.IntN(2) == 0 {
		c.hit(p, parts, syscall.SIGKILL)
		return
	}
	c.hit(p, parts, syscall.SIGSTOP)
	time.Sleep(200*time.Millisecond + time.Duration(c.random.Int64N(int64(2*ttl))))
	c.hit(p, parts, syscall.SIGCONT)
}

// run goes on until the deadline: the holder's pod alone, or several pods at once. Between them it waits until
// somebody writes.
func (c *chaos) run(deadline time.Time) {
	for time.Now().Before(deadline) {
		c.settle()
		time.Sleep(200*time.Millisecond + time.Duration(c.random.Int64N(int64(1500*time.Millisecond))))
		if c.random.IntN(3) > 0 {
			c.hurt(c.holder())
			continue
		}
		for range 2 + c.random.IntN(3) {
			c.hurt(c.pods[c.random.IntN(len(c.pods))])
			time.Sleep(time.Duration(c.random.Int64N(int64(400 * time.Millisecond))))
		}
	}
	c.settle()
}

func (c *chaos) holder() *pod {
	name := c.record.present().writer
	for _, p := range c.pods {
		if p.name == name {
			return p
		}
	}
	return c.pods[0]
}

// settle waits until somebody has committed after now.
func (c *chaos) settle() {
	now := time.Now()
	for time.Since(now) < patience && !c.record.present().last.After(now) {
		time.Sleep(10 * time.Millisecond)
	}
}

// handOver is the time from the fault that ended a tenure to the next one's first commit.
type handOver struct {
	took   time.Duration
	raised time.Duration // of that, until the mark was raised
	alone  bool          // no other pod was hurt meanwhile: the bound holds for these
	reason string        // the signal
	at     time.Time
}

// handOvers finds for each tenure the fault that ended it. unprovoked are those that no fault explains.
func (c *chaos) handOvers(tenures []tenure) (all []handOver, unprovoked int) {
	for i := 1; i < len(tenures); i++ {
		h, ok := c.between(tenures[i-1], tenures[i])
		if !ok {
			unprovoked++
			continue
		}
		all = append(all, h)
	}
	return all, unprovoked
}

func (c *chaos) between(old, next tenure) (h handOver, ok bool) {
	var since time.Time
	killed, stopped := false, false
	for _, f := range c.faults {
		if f.pod != old.writer || f.part != "sidecar" || f.at.Before(old.first) || f.at.After(next.first) {
			continue
		}
		switch {
		case f.signal == syscall.SIGCONT:
			stopped = false
		case !killed && !stopped:
			since, h.reason = f.at, f.signal.String()
			stopped, killed = f.signal == syscall.SIGSTOP, f.signal == syscall.SIGKILL
		case f.signal == syscall.SIGKILL:
			killed = true
		}
	}
	if since.IsZero() {
		return h, false
	}
	h.at, h.took, h.raised, h.alone = since, next.first.Sub(since), next.raised.Sub(since), true
	frozen := map[string]bool{} // since is the last moment that counts: who is frozen then may be next in the queue
	for _, f := range c.faults {
		if f.pod == old.writer || f.at.After(next.first) || f.at.After(since) && f.signal == syscall.SIGCONT {
			continue
		}
		frozen[f.pod+f.part] = f.signal == syscall.SIGSTOP
		if f.at.After(since) {
			h.alone = false
		}
	}
	for _, f := range frozen {
		h.alone = h.alone && !f
	}
	return h, true
}

// describe has the median and the maximum of some hand-overs.
func describe(all []handOver) (median, most time.Duration, text string) {
	if len(all) == 0 {
		return 0, 0, "none"
	}
	var took []time.Duration
	for _, h := range all {
		took = append(took, h.took)
	}
	slices.Sort(took)
	median, most = took[len(took)/2], took[len(took)-1]
	return median, most, fmt.Sprintf("%d, median %v, maximum %v", len(took), median.Round(time.Millisecond), most.Round(time.Millisecond))
}

// counts says how often which part was hurt in which way.
func (c *chaos) counts() string {
	n := map[string]int{}
	for _, f := range c.faults {
		n[f.part+" "+map[syscall.Signal]string{syscall.SIGKILL: "kill -9", syscall.SIGSTOP: "SIGSTOP", syscall.SIGCONT: "SIGCONT"}[f.signal]]++
	}
	var words []string
	for what, times := range n {
		words = append(words, fmt.Sprintf("%s %d", what, times))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}
