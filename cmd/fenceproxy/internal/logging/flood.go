package logging

import (
	"sync"
	"time"
)

// perSecond is how many lines of one kind are written in a second: enough to see who, few enough for any log.
const perSecond = 10

// maxKinds bounds the memory; kinds beyond it share one budget.
const maxKinds = 1024

// Flood bounds how often lines of a kind are written. Nothing is lost silently: the first line of a later second says
// how many were left out. Safe for concurrent use.
type Flood struct {
	now   func() time.Time
	mu    sync.Mutex
	kinds map[string]*window
}

type window struct {
	second     int64
	written    int
	suppressed int
}

// NewFlood starts with full budgets.
func NewFlood() *Flood { return &Flood{now: time.Now, kinds: map[string]*window{}} }

// Allow says whether to write a line of the kind now, and how many were left out since the last one.
func (f *Flood) Allow(kind string) (write bool, suppressed int) {
	second := f.now().Unix()
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.kinds[kind]
	if w == nil {
		if len(f.kinds) >= maxKinds {
			kind = ""
			w = f.kinds[kind]
		}
		if w == nil {
			w = &window{}
			f.kinds[kind] = w
		}
	}
	if w.second != second {
		w.second, w.written = second, 0
	}
	if w.written == perSecond {
		w.suppressed++
		return false, 0
	}
	w.written++
	suppressed, w.suppressed = w.suppressed, 0
	return true, suppressed
}
