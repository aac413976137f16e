package memory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// Server is a lock service with first-in-first-out queues, for exclusive and shared locks. Make it with NewServer. All
// methods may be called concurrently.
type Server struct {
	issuer string
	rate   float64 // of its clock, against everybody else's

	// Taken is called when a claim leaves the service other than by its owner's Release, before anybody else is
	// granted the lock. Set it before use; it must not call the Server.
	Taken func(c Claim)

	mu     sync.Mutex
	next   int64
	epoch  int64
	locks  map[string]*lock
	claims map[int64]*entry
}

// Claim is the server's view of a claim.
type Claim struct {
	ID     int64 // the token's counter
	Name   string
	Holder string
	Held   bool
}

type lock struct {
	queue   []*entry // by arrival; the first, or the readers at the front, hold
	changed chan struct{}
}

type entry struct {
	Claim
	mode   lockclient.Mode
	epoch  int64
	ttl    time.Duration
	expiry *time.Timer
	ends   time.Time // when expiry fires
	gone   bool
	since  time.Time
}

var servers atomic.Int64

// NewServer makes a Server whose clock runs at rate: 1.01 is one percent fast, so that it expires locks early.
func NewServer(rate float64) *Server {
	return &Server{issuer: fmt.Sprintf("memory/%d", servers.Add(1)), rate: rate, locks: map[string]*lock{}, claims: map[int64]*entry{}}
}

// SetEpoch starts a new epoch for claims that arrive from now on.
func (s *Server) SetEpoch(epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = epoch
}

// SetNext makes n the next token's counter: a service that lost its history.
func (s *Server) SetNext(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = n - 1
}

// Skip lets d pass at once for the server: what it looks like to a client that was stopped for so long, and whose clock
// the test moves by as much. Claims that expire meanwhile have expired when Skip returns.
func (s *Server) Skip(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.claims {
		if e.ends = e.ends.Add(-d); time.Until(e.ends) > 0 {
			e.expiry.Reset(time.Until(e.ends))
		} else {
			s.remove(e, true)
		}
	}
}

// Drop takes all claims to a lock away, as an operator does who deletes its keys.
func (s *Server) Drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.locks[name]; l != nil {
		for len(l.queue) > 0 {
			s.remove(l.queue[0], true)
		}
	}
}

// Queue returns the claims to a lock, holders first.
func (s *Server) Queue(name string) []Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Claim
	if l := s.locks[name]; l != nil {
		for _, e := range l.queue {
			out = append(out, e.Claim)
		}
	}
	return out
}

func (s *Server) request(req lockclient.Request) (Claim, tokens.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locks[req.Name]
	if l == nil {
		l = &lock{changed: make(chan struct{})}
		s.locks[req.Name] = l
	}
	s.next++
	e := &entry{Claim: Claim{ID: s.next, Name: req.Name, Holder: req.Holder}, mode: req.Mode, epoch: s.epoch, ttl: req.TTL, since: time.Now()}
	l.queue = append(l.queue, e)
	if s.serve(l); !e.Held && !req.Queue {
		l.queue = l.queue[:len(l.queue)-1]
		return Claim{}, tokens.Token{}, &lockclient.HeldError{Lock: req.Name, Leader: l.leader()}
	}
	s.claims[e.ID] = e
	e.ends = time.Now().Add(s.span(e.ttl))
	e.expiry = time.AfterFunc(s.span(e.ttl), func() { s.expire(e) })
	l.notify()
	return e.Claim, tokens.Token{Epoch: e.epoch, Counter: e.ID}, nil
}

// span is how long d of the server's time takes.
func (s *Server) span(d time.Duration) time.Duration { return time.Duration(float64(d) / s.rate) }

// serve grants the lock to whom it belongs: the first, and all readers behind a reader at the front.
func (s *Server) serve(l *lock) {
	for i, e := range l.queue {
		if i > 0 && (e.mode == lockclient.Exclusive || l.queue[0].mode == lockclient.Exclusive) {
			return
		}
		if !e.Held {
			e.Held, e.since = true, time.Now()
		}
	}
}

func (l *lock) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *lock) leader() lockclient.Leader {
	if len(l.queue) == 0 || !l.queue[0].Held || l.queue[0].mode == lockclient.Shared {
		return lockclient.Leader{}
	}
	e := l.queue[0]
	return lockclient.Leader{Holder: e.Holder, Token: tokens.Token{Epoch: e.epoch, Counter: e.ID}, Since: e.since}
}

// remove ends a claim and serves the next. mu is held.
func (s *Server) remove(e *entry, taken bool) {
	if e.gone {
		return
	}
	e.gone = true
	e.expiry.Stop()
	delete(s.claims, e.ID)
	if taken && s.Taken != nil {
		s.Taken(e.Claim)
	}
	l := s.locks[e.Name]
	for i := range l.queue {
		if l.queue[i] == e {
			l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
			break
		}
	}
	s.serve(l)
	l.notify()
}

func (s *Server) expire(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(e, true)
}

func (s *Server) renew(id int64) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.claims[id]
	if e == nil || !e.expiry.Stop() { // a timer that has fired waits for mu: expired
		return 0, lockclient.ErrLost
	}
	e.ends = time.Now().Add(s.span(e.ttl))
	e.expiry.Reset(s.span(e.ttl))
	return e.ttl, nil
}

func (s *Server) release(id int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.claims[id]
	if e == nil {
		return lockclient.ErrLost
	}
	s.remove(e, false)
	return nil
}

// state of a claim, and a channel that is closed when the lock changes.
func (s *Server) state(name string, id int64) (epoch int64, held, gone bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.locks[name].changed
	if e := s.claims[id]; e != nil {
		return e.epoch, e.Held, false, changed
	}
	return 0, false, true, changed
}

func (s *Server) leader(name string) (lockclient.Leader, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locks[name]
	if l == nil {
		l = &lock{changed: make(chan struct{})}
		s.locks[name] = l
	}
	return l.leader(), l.changed
}
