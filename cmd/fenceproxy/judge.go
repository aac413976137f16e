package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/rewrite"
)

// judge is a session's.
type judge struct {
	of   *catalogs
	name string
	in   atomic.Pointer[sessionsIn]
	want atomic.Uint64 // the look that the session's DDL has asked for

	mu       sync.Mutex
	doubting bool // in has its Doubt
	left     bool
}

// Enter implements relay.Judge.
func (j *judge) Enter() {
	if d := j.of.enter(j.name); d != nil {
		j.in.Store(d)
	}
}

// Settled implements relay.Judge.
func (j *judge) Settled() bool {
	d := j.in.Load()
	if d == nil {
		return true
	}
	if looked, _ := d.watched.Looked(j.want.Load()); !looked {
		return false
	}
	for _, other := range j.of.beside.all(d) {
		if !other.settled() {
			return false
		}
	}
	return true
}

// Settle implements relay.Judge.
func (j *judge) Settle(ctx context.Context) {
	d := j.in.Load()
	if d == nil {
		return
	}
	late := time.NewTimer(settleTime)
	defer late.Stop()
	for {
		looked, next := d.watched.Looked(j.want.Load())
		if looked {
			next = d.watched.Settled() // another one, if the look before it was lost with the connection
		} else {
			d.watched.Hurry()
		}
		select {
		case <-next:
			if looked {
				for _, other := range j.of.beside.all(d) {
					other.make()
				}
				return
			}
		case <-late.C:
			j.tooLate(d)
			return
		case <-ctx.Done():
			return
		}
	}
}

// tooLate says what the session goes on without.
func (j *judge) tooLate(d *sessionsIn) {
	if j.want.Load() > 0 {
		j.of.log.Warn("DDL is answered before the catalog could be read: new ways to a fence are not guarded yet", zap.String("database", j.name))
		return
	}
	d.late.Do(func() {
		j.of.log.Warn("the catalog is not there yet: sessions are judged by the configuration alone", zap.String("database", j.name))
	})
}

// Analyzer implements relay.Judge.
func (j *judge) Analyzer() *rewrite.Analyzer {
	if d := j.in.Load(); d != nil {
		return d.made.Load().analyzer
	}
	return j.of.base
}

// Changed implements relay.Judge.
func (j *judge) Changed(c rewrite.CatalogChange, inDoubt bool) {
	d := j.in.Load()
	switch {
	case d == nil:
		return
	case c == rewrite.CatalogColumns:
		j.want.Store(d.watched.Outdate())
	default:
		j.want.Store(d.watched.Reload())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.doubt(d, inDoubt && !j.left)
}

// doubt: under mu.
func (j *judge) doubt(d *sessionsIn, on bool) {
	switch {
	case on && !j.doubting:
		d.watched.Doubt()
	case !on && j.doubting:
		d.watched.Believe()
	}
	j.doubting = on
}

// Leave implements relay.Judge. Its analyzer stays the last one.
func (j *judge) Leave() {
	d := j.in.Load()
	if d == nil {
		return
	}
	j.mu.Lock()
	if j.left = true; j.doubting { // whatever it did is done, or undone
		d.watched.Outdate()
		j.doubt(d, false)
	}
	j.mu.Unlock()
	j.of.leave(d)
}
