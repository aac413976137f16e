package relay

import (
	"io"

	"golang.org/x/sys/unix"
)

// leg is one socket of a session in an event loop.
type leg struct {
	loop   *eventLoop
	of     *looped
	fd     int
	number int32
	mask   uint32 // what epoll watches; 0: the socket is not in it
	out    []byte // not written yet
	sent   int    // of out
	eof    bool   // the peer has closed its side
}

func (g *leg) ready(events uint32) {
	s := g.of
	switch {
	case s.away: // since an earlier event of this round
	case g == &s.client:
		s.clientReady(events)
	default:
		s.serverReady(events)
	}
}

// blocked reports whether the peer does not read.
func (g *leg) blocked() bool { return len(g.out) > 0 }

// want sets what epoll watches, and reports whether it does. A socket that nothing is wanted of is taken out, for epoll
// would go on to tell that it has hung up.
func (g *leg) want(mask uint32) bool {
	if mask == g.mask {
		return true
	}
	op := unix.EPOLL_CTL_MOD
	switch {
	case g.mask == 0:
		op = unix.EPOLL_CTL_ADD
	case mask == 0:
		op = unix.EPOLL_CTL_DEL
	}
	g.mask = mask
	return unix.EpollCtl(g.loop.epoll, op, g.fd, &unix.EpollEvent{Events: mask, Fd: g.number}) == nil
}

// read takes what has arrived into buf. n is 0 without an error when there is nothing.
func (g *leg) read(buf []byte) (n int, err error) {
	n, code := sysRecv(g.fd, buf)
	switch {
	case code == unix.EAGAIN || code == unix.EINTR:
		return 0, nil
	case code != 0:
		return 0, code
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// write writes the segments, in one call, and keeps what the socket does not take.
func (g *leg) write(s *Segments) error {
	if len(s.List) == 0 {
		return nil
	}
	if len(g.out) > 0 {
		g.out = s.appendTo(g.out)
		return nil
	}
	b := s.List[0]
	if len(s.List) > 1 {
		g.loop.scratch = s.appendTo(g.loop.scratch[:0])
		b = g.loop.scratch
	}
	n, err := g.push(b)
	if err == nil && n < len(b) {
		g.out, g.sent = append(g.loop.take(), b[n:]...), 0
	}
	if cap(g.loop.scratch) > 4*loopBuffer {
		g.loop.scratch = nil
	}
	return err
}

// flush writes what was kept.
func (g *leg) flush() error {
	n, err := g.push(g.out[g.sent:])
	if err != nil {
		return err
	}
	if g.sent += n; g.sent == len(g.out) {
		g.loop.give(g.out)
		g.out, g.sent = nil, 0
	}
	return nil
}

// push writes until the socket takes no more.
func (g *leg) push(b []byte) (n int, err error) {
	for n < len(b) {
		k, code := sysSend(g.fd, b[n:])
		switch code {
		case 0:
			n += k
		case unix.EAGAIN:
			return n, nil
		case unix.EINTR:
		default:
			return n, code
		}
	}
	return n, nil
}

// unsent is what was kept. The leg is done with it.
func (g *leg) unsent() []byte { return g.out[g.sent:] }
