package torture

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// schedule runs one schedule to its end, judges it, and adds it to the summary.
func (w *world) schedule(s Schedule, sum *Summary) error {
	began := time.Now()
	remaining := func() time.Duration { return max(time.Millisecond, s.Length-time.Since(began)) }
	ordered := func(h *hand) error { return h.order(w.orderOf(s, remaining())) }
	w.gate.obey(s)
	before := w.ledger.registers()
	hands := w.crew.hands[:s.Workers]
	for _, h := range hands {
		if err := ordered(h); err != nil {
			return err
		}
	}
	ctx, end := context.WithTimeout(context.Background(), s.Length)
	defer end()
	var background sync.WaitGroup
	background.Go(func() { w.adversary(ctx, s, ordered) })
	over := make(chan struct{})
	background.Go(func() { w.tidy(over) })
	background.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
			w.judge(context.Background())
		}
	})
	<-ctx.Done()
	played := time.Since(began)
	for _, h := range hands {
		if err := w.crew.wait(h, 20*time.Second); err != nil {
			return err
		}
	}
	ended := time.Since(began)
	close(over)
	background.Wait()
	if err := w.calm(); err != nil {
		return fmt.Errorf("after the schedule: %w", err)
	}
	if err := w.onServer(func(ctx context.Context, _ *pgx.Conn) error { return w.judge(ctx) }); err != nil {
		return fmt.Errorf("commit log: %w", err)
	}
	events, faults := append(w.crew.take(), w.gate.takeHeld()...), w.faults
	w.faults = nil
	judgeTold(w.ledger, events)
	judgeAcknowledged(w.ledger, events)
	judgeOwners(w.ledger, events)
	if err := w.judgeTables(); err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	judgeLinear(w.ledger, before, events, sum)
	w.t.Logf("%d: seed %d, %v play, %v to the end, %v judged: %s", sum.Schedules, s.Seed, played.Round(time.Millisecond), ended.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), codes(events))
	sum.Schedules++
	sum.Violations += len(w.violations)
	if w.timeline != "" {
		if err := writeTimeline(w.timeline, s, events, faults, w.violations); err != nil {
			return err
		}
	}
	sum.count(events, faults)
	told := map[string]bool{} // one for each fence: the others mostly follow from it
	for _, v := range w.violations {
		if !told[v.Fence] && len(told) < 3 {
			told[v.Fence] = true
			w.t.Errorf("fence %s: %s\n%s", v.Fence, v.What, trace(v, events, faults))
		}
	}
	if n := len(w.violations) - len(told); n > 0 {
		w.t.Errorf("and %d more", n)
	}
	return nil
}

// tidy ends prepared transactions whose owner is gone.
func (w *world) tidy(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(500 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if c, err := pgx.Connect(ctx, w.server.SocketDSN(w.db, "postgres")); err == nil {
			w.rollbackPrepared(ctx, c, 1500*time.Millisecond)
			c.Close(ctx)
		}
		cancel()
	}
}
