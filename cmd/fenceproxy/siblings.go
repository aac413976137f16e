package main

import (
	"sync"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// siblings are the sessions in one database under several configurations with the same fences: those from before a reload go on
// beside those that began after it, and each have their own analyzer.
type siblings struct {
	mu sync.Mutex
	of map[*catalog.Watched]map[*sessionsIn]bool
}

func (s *siblings) add(d *sessionsIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[*catalog.Watched]map[*sessionsIn]bool{}
	}
	if s.of[d.watched] == nil {
		s.of[d.watched] = map[*sessionsIn]bool{}
	}
	s.of[d.watched][d] = true
}

func (s *siblings) remove(d *sessionsIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.of[d.watched], d); len(s.of[d.watched]) == 0 {
		delete(s.of, d.watched)
	}
}

// all are those of d's database, d among them.
func (s *siblings) all(d *sessionsIn) []*sessionsIn {
	list := []*sessionsIn{d} // also if it was given back
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.of[d.watched] {
		if other != d {
			list = append(list, other)
		}
	}
	return list
}
