package relay

import (
	"net"
	"sync"
)

// loops are the event loops of a server. They start with the first session that can use one.
type loops struct {
	want   int
	mu     sync.Mutex
	all    []*eventLoop
	failed bool // the system refused one; sessions are driven by goroutines then
	closed bool
}

// drive gives the session a driver: an event loop for plain sockets, where there are any, else two goroutines.
func (s *Server) drive(ses *session, client, server net.Conn) runner {
	if c, d := bare(client), bare(server); c != nil && d != nil {
		if l := s.loops.pick(); l != nil {
			if r := newLooped(ses, l, c, d); r != nil {
				return r
			}
			l.sessions.Add(-1)
		}
	}
	return newPumps(ses, client, &lasting{Conn: server, ctx: ses.life, parted: ses.parted})
}

// bare is the socket that c is, or nil if there is more to it: TLS, or something that was read already.
func bare(c net.Conn) net.Conn {
	switch l := c.(type) {
	case *net.TCPConn, *net.UnixConn:
		return c
	case *clientLeg:
		return bare(l.Conn)
	case serverLeg:
		return bare(l.Conn)
	case *serverLeg:
		return bare(l.Conn)
	}
	return nil
}

// pick is the loop with the fewest sessions, and counts one more in it; nil if there is none.
func (l *loops) pick() *eventLoop {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 && l.want > 0 && !l.failed && !l.closed {
		l.open()
	}
	var best *eventLoop
	for _, c := range l.all {
		if best == nil || c.sessions.Load() < best.sessions.Load() {
			best = c
		}
	}
	if best != nil {
		best.sessions.Add(1)
	}
	return best
}

func (l *loops) open() {
	for range l.want {
		c, err := newEventLoop()
		if err != nil {
			l.failed = true
			break
		}
		l.all = append(l.all, c)
	}
}

// close ends the loops; no session may be left.
func (l *loops) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		c.close()
	}
	l.all, l.closed = nil, true
}
