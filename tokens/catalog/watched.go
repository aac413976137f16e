package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Watched is a database that is watched.
type Watched struct {
	name    string
	watcher *Watcher
	ctx     context.Context
	cancel  context.CancelFunc
	again   chan struct{}
	now     atomic.Pointer[Snapshot]
	hurry   chan struct{}
	asked   atomic.Uint64 // calls of Reload and Outdate
	old     atomic.Uint64 // asked at the last Outdate
	seen    atomic.Uint64 // asked before the last look
	doubts  atomic.Int64  // of Doubt, less those of Believe
	lost    atomic.Bool   // no look has worked since one failed
	keeps   atomic.Bool   // it has a connection of its own
	users   int           // under Watcher.mu
	lefts   int           // likewise: how often nobody was left

	last struct { // the last look without a connection that is kept; its goroutine's own
		print   string // the fingerprint before it
		skipped int    // looks since that compared fingerprints only
	}

	mu      sync.Mutex
	settled chan struct{} // closed after a look, another one when a connection that worked is lost
	changed chan struct{}
	looked  chan struct{} // closed after the next look, or try
	err     error
}

// Name is the database's.
func (d *Watched) Name() string { return d.name }

// Settled is closed once the database was looked at, whether that worked or not. When the connection is lost another one
// takes its place until it was tried to look again: a database of that name may be another one now.
func (d *Watched) Settled() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settled
}

// Current reports whether there was a look after the last Outdate, nobody's Doubt lasts, and the database can still be
// looked at.
func (d *Watched) Current() bool {
	return d.doubts.Load() == 0 && d.seen.Load() >= d.old.Load() && !d.lost.Load()
}

// Ended reports whether the database is not watched any more.
func (d *Watched) Ended() bool { return d.ctx.Err() != nil }

// Done is closed when the database is not watched any more.
func (d *Watched) Done() <-chan struct{} { return d.ctx.Done() }

// Snapshot is the newest one, nil as long as there is none.
func (d *Watched) Snapshot() *Snapshot { return d.now.Load() }

// Changed is closed when the next Snapshot is there.
func (d *Watched) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Err says why the last look failed; nil after one that did not.
func (d *Watched) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Outdate is Reload, and Current is false until that look: DDL was seen.
func (d *Watched) Outdate() uint64 {
	n := d.asked.Add(1)
	for old := d.old.Load(); old < n && !d.old.CompareAndSwap(old, n); old = d.old.Load() {
	}
	d.askAgain()
	return n
}

// Doubt makes Current false until as many calls of Believe: DDL was seen that is not committed yet.
func (d *Watched) Doubt() { d.doubts.Add(1) }

// Believe ends a Doubt. Outdate comes first, if the DDL may be committed.
func (d *Watched) Believe() { d.doubts.Add(-1) }

// Reload asks for a look at once: what leads to a fence may have changed, or at an operator's word. The number is for Looked.
func (d *Watched) Reload() uint64 {
	n := d.asked.Add(1)
	d.askAgain()
	return n
}

func (d *Watched) askAgain() {
	select {
	case d.again <- struct{}{}:
	default:
	}
}

// Looked reports whether there was a look after the Reload or Outdate with that number, or there is none to be had now. If
// not, next is closed after the next one.
func (d *Watched) Looked(asked uint64) (ok bool, next <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen.Load() >= asked || d.lost.Load() || d.err != nil || d.Ended(), d.looked
}

// Hurry: somebody waits for the look that was asked for. It makes no pause before that.
func (d *Watched) Hurry() {
	select {
	case d.hurry <- struct{}{}:
	default:
	}
}

// tried lets those go on who wait for a look: there was one, or it did not work.
func (d *Watched) tried() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.looked)
	d.looked = make(chan struct{})
}

// Leave: whoever has asked for the database needs it no more. It goes on to answer with what it knew last.
func (d *Watched) Leave() {
	w := d.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	left := d.lefts + 1
	d.lefts = left
	time.AfterFunc(linger, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if d.users == 0 && d.lefts == left {
			d.forget()
		}
	})
}

// forget ends the watch; under Watcher.mu.
func (d *Watched) forget() {
	d.cancel()
	if d.watcher.dbs[d.name] == d {
		delete(d.watcher.dbs, d.name)
	}
}

// settle lets those go on who wait for a look.
func (d *Watched) settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.settled:
	default:
		close(d.settled)
	}
}

// unsettle has sessions to come wait for the next look.
func (d *Watched) unsettle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.settled:
		d.settled = make(chan struct{})
	default:
	}
}

// doubtful: a session that begins shows that the database is there, and it may be another one than that which was looked at.
// Where no look has ever worked, nobody waits for the next one. Under Watcher.mu.
func (d *Watched) doubtful() bool {
	return d.Snapshot() != nil && (d.lost.Load() || d.users == 0 && !d.keeps.Load())
}

// failed notes the outcome of a look that did not work, and reports whether the one before it had.
func (d *Watched) failed(err error) (first bool) {
	d.lost.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	first = d.err == nil
	d.err = err
	return first
}

// show makes s the newest Snapshot, unless it tells nothing new.
func (d *Watched) show(s *Snapshot) {
	last := d.now.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = nil
	if last != nil && last.digest == s.digest {
		return
	}
	s.Generation = 1
	if last != nil {
		s.Generation = last.Generation + 1
	}
	d.now.Store(s)
	close(d.changed)
	d.changed = make(chan struct{})
}
