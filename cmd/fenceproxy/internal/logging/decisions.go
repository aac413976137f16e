package logging

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Decisions is the decision log: JSON lines, appended by a goroutine of its own, so that nothing waits for the disk. What
// is over the rate, does not fit the queue or cannot be written is dropped and counted. Safe for concurrent use.
type Decisions struct {
	dropped func(DropReason)
	out     decisionFile
	core    zapcore.Core
	queue   chan decision
	stop    chan struct{}
	ended   chan struct{}

	wanted atomic.Int32
	rate   atomic.Int64 // lines a second; 0: no limit
	window atomic.Int64 // second in the upper bits, lines of it in the lower windowBits
	now    func() time.Time
}

// DropReason says why a line is not in the log. A closed set: it is a label.
type DropReason string

const (
	DropRate  DropReason = "rate"
	DropQueue DropReason = "queue" // the disk, or who reads standard error, is too slow
	DropWrite DropReason = "write" // the disk is full, for example
)

type decision struct {
	at     time.Time
	fields []zap.Field
}

const (
	maxDecisions = 4096 // in the queue
	windowBits   = 24
	flushTime    = time.Second // for what is in the queue at the end
)

// Which decisions are wanted.
const (
	wantNone int32 = iota
	wantRejections
	wantAll
)

// NewDecisions makes the log, which is off. file is appended to, other is written to when it is "". dropped is called for
// every line that is lost.
func NewDecisions(file string, other zapcore.WriteSyncer, dropped func(DropReason)) *Decisions {
	d := &Decisions{dropped: dropped, queue: make(chan decision, maxDecisions), stop: make(chan struct{}), ended: make(chan struct{}), now: time.Now}
	d.out.path, d.out.other = file, other
	c := encoding()
	c.LevelKey, c.MessageKey = "", ""
	d.core = zapcore.NewCore(zapcore.NewJSONEncoder(c), &d.out, zapcore.InfoLevel)
	go d.write()
	return d
}

// Set says which decisions are logged from now on: off, rejections or all, and how many a second (0: no limit). The error
// is one of opening the file; then nothing has changed.
func (d *Decisions) Set(which string, rate int) error {
	wanted := map[string]int32{"rejections": wantRejections, "all": wantAll}[which]
	if wanted != wantNone {
		if err := d.out.open(); err != nil {
			return err
		}
	}
	d.rate.Store(int64(rate))
	d.wanted.Store(wanted)
	return nil
}

// Reopen appends to the file of that name again: it may have been renamed.
func (d *Decisions) Reopen() error {
	if d.wanted.Load() == wantNone {
		return nil
	}
	return d.out.reopen()
}

// Wanted reports whether decisions are logged, and whether those are that rejected nothing.
func (d *Decisions) Wanted() (any, all bool) {
	w := d.wanted.Load()
	return w != wantNone, w == wantAll
}

// Log logs a decision. It never blocks.
func (d *Decisions) Log(fields []zap.Field) {
	now := d.now()
	if !d.allow(now.Unix()) {
		d.dropped(DropRate)
		return
	}
	select {
	case d.queue <- decision{now, fields}:
	default:
		d.dropped(DropQueue)
	}
}

// allow counts a line of the second.
func (d *Decisions) allow(second int64) bool {
	limit := d.rate.Load()
	if limit == 0 {
		return true
	}
	for {
		w := d.window.Load()
		next := w + 1
		if w>>windowBits != second {
			next = second<<windowBits | 1
		} else if w&(1<<windowBits-1) >= limit {
			return false
		}
		if d.window.CompareAndSwap(w, next) {
			return true
		}
	}
}

func (d *Decisions) write() {
	defer close(d.ended)
	for {
		select {
		case line := <-d.queue:
			d.writeOne(line)
		case <-d.stop:
			for until := time.Now().Add(flushTime); time.Now().Before(until); {
				select {
				case line := <-d.queue:
					d.writeOne(line)
				default:
					return
				}
			}
			return
		}
	}
}

func (d *Decisions) writeOne(line decision) {
	if d.core.Write(zapcore.Entry{Level: zapcore.InfoLevel, Time: line.at}, line.fields) != nil {
		d.dropped(DropWrite)
	}
}

// Close writes what is in the queue. Nothing may be logged any more.
func (d *Decisions) Close() {
	close(d.stop)
	<-d.ended
	d.out.close()
}

// decisionFile is a file that can be opened again while it is written to.
type decisionFile struct {
	path  string
	other zapcore.WriteSyncer

	mu   sync.Mutex
	file *os.File
}

func (f *decisionFile) open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" || f.file != nil {
		return nil
	}
	return f.replace()
}

func (f *decisionFile) reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" {
		return nil
	}
	return f.replace()
}

func (f *decisionFile) replace() error {
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("decision log: %w", err)
	}
	if f.file != nil {
		f.file.Close()
	}
	f.file = file
	return nil
}

func (f *decisionFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" {
		return f.other.Write(b)
	}
	if f.file == nil {
		return 0, os.ErrClosed
	}
	return f.file.Write(b)
}

func (f *decisionFile) Sync() error { return nil }

func (f *decisionFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}
