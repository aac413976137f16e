package relay

import (
	"bytes"
	"context"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// looped is a session in an event loop. Its methods run in the loop's goroutine, except where said otherwise; its own
// goroutine (run) waits for the end and says the last words.
//
// A peer that does not read stops its feeder: while something is left to be written to one side, the other is not read.
type looped struct {
	*session
	loop           *eventLoop
	client, server leg
	rest           []byte // of the client, not taken by the engine yet
	held           bool   // the engine wants no client bytes
	left           bool   // the client has closed meanwhile: it waits for no announcement
	announces      context.CancelFunc
	draining       bool
	quiet          bool     // the last that the server said was ReadyForQuery
	said           bool     // the client sent Terminate
	dropping       bool     // the server takes nothing any more; what the client sends is dropped
	away           bool     // the engine is at work in another goroutine; nothing may touch it
	waiting        []func() // for the engine to come back
	over           bool
	done           chan ending
}

// newLooped takes over the two connections, or returns nil when they are not plain sockets.
func newLooped(s *session, l *eventLoop, client, server net.Conn) runner {
	c, ok := detach(client)
	if !ok {
		return nil
	}
	d, ok := detach(server)
	if !ok {
		unix.Close(c)
		return nil
	}
	client.Close() // the sockets stay open: we have descriptors of our own
	server.Close()
	r := &looped{session: s, loop: l, done: make(chan ending, 1)}
	r.client = leg{loop: l, of: r, fd: c}
	r.server = leg{loop: l, of: r, fd: d}
	r.post(func() { // ahead of a drain or a kill, which come as soon as the server knows of the session
		l.number(&r.client)
		l.number(&r.server)
		r.settle()
	})
	return r
}

// run is called in a goroutine of its own.
func (s *looped) run() EndReason {
	e := <-s.done
	s.farewell(&e)
	s.cancel()
	s.work.Wait()
	s.loop.sessions.Add(-1)
	return s.why()
}

// post has f called in the loop unless the session is over then. Safe from any goroutine.
func (s *looped) post(f func()) {
	s.loop.post(func() {
		defer s.recovered()
		switch {
		case s.over:
		case s.away:
			s.waiting = append(s.waiting, f)
		default:
			f()
		}
	})
}

// recovered cuts the session off after a panic, which must not take the loop and all other sessions with it.
func (s *looped) recovered() {
	if r := recover(); r != nil {
		s.panicked(r)
		s.cut()
	}
}

func (s *looped) clientReady(events uint32) {
	defer s.recovered()
	reads := s.client.mask&unix.EPOLLIN != 0
	if s.client.blocked() && events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 && s.client.flush() != nil {
		s.clientBroken()
		return
	}
	switch {
	case reads && events&(unix.EPOLLIN|unix.EPOLLERR|unix.EPOLLHUP|unix.EPOLLRDHUP) != 0:
		s.readClient()
	case events&unix.EPOLLERR != 0:
		s.clientBroken()
	case !reads && events&(unix.EPOLLRDHUP|unix.EPOLLHUP) != 0: // what it has sent is still to be read
		s.abandonAnnounce()
	}
	s.settle()
}

func (s *looped) readClient() {
	n, err := s.client.read(s.loop.buf)
	switch {
	case n > 0 && !s.dropping:
		s.feed(s.loop.buf[:n])
	case err == io.EOF:
		s.client.eof = true
	case err != nil && s.dropping: // it has nothing more to say, but perhaps something to hear
		s.client.eof = true
	case err != nil:
		s.clientBroken()
	}
}

// feed hands bytes of the client to the engine and writes what comes out.
func (s *looped) feed(in []byte) {
	for len(in) > 0 && !s.held && !s.over {
		if s.engine.Long(in) {
			s.feedAside(bytes.Clone(in))
			return
		}
		out := &s.loop.out
		out.Reset()
		n, err := s.engine.FromClient(in, out)
		in = s.fed(in, n, err, out)
	}
	if len(in) > 0 && !s.over {
		s.rest = bytes.Clone(in)
	}
}

// feedAside has a goroutine call the engine, so that the analysis of a long text does not hold up the loop's other
// sessions. Nobody looks at the sockets of this one meanwhile.
func (s *looped) feedAside(in []byte) {
	s.away = true
	s.client.want(0)
	s.server.want(0)
	s.work.Go(func() {
		var out Output
		n, err := 0, error(nil)
		defer func() {
			bug := recover()
			if bug != nil {
				s.panicked(bug)
			}
			s.loop.post(func() {
				defer s.recovered()
				s.away = false
				if bug != nil {
					s.cut()
					return
				}
				s.rest = s.fed(in, n, err, &out)
				for _, f := range s.waiting {
					if !s.over {
						f()
					}
				}
				s.waiting = nil
				s.settle()
			})
		}()
		n, err = s.engine.FromClient(in, &out)
	})
}

// fed carries out what the engine made of in, of which it took n bytes, and returns the others.
func (s *looped) fed(in []byte, n int, err error, out *Output) []byte {
	// A message may be cut anywhere, so this misses some Terminates: then the end of stream says the same.
	if n == wire.HeaderLen && in[0] == wire.FrontendTerminate {
		s.said = true
	}
	told := len(out.ToClient.List) > 0
	s.carryOut(out)
	if err != nil {
		s.stop(&stop{reason: EndProtocol, words: protocolWords(err, told), urgent: true})
	}
	return in[n:]
}

// carryOut does what the engine has asked for.
func (s *looped) carryOut(out *Output) {
	if n := out.ToClient.Len(); n > 0 {
		if s.client.write(&out.ToClient) != nil {
			s.clientBroken()
			return
		}
		s.toClient.Add(int64(n))
		s.rec.Bytes(0, n)
	}
	if n := out.ToServer.Len(); n > 0 && !s.dropping {
		if s.server.write(&out.ToServer) != nil {
			s.serverUnwritable()
		} else {
			s.toServer.Add(int64(n))
			s.rec.Bytes(n, 0)
		}
	}
	switch out.Effect {
	case EffectResume:
		s.held = false
	case EffectWait:
		s.held = true
	case EffectAnnounce:
		s.held = true
		s.announce(out.Announce, out.Session)
	}
	if out.Close {
		s.stop(&stop{reason: EndRejected})
	}
}

func (s *looped) serverReady(events uint32) {
	defer s.recovered()
	reads := s.server.mask&unix.EPOLLIN != 0
	if s.server.blocked() && events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 && s.server.flush() != nil {
		s.serverUnwritable()
	}
	if reads && events&(unix.EPOLLIN|unix.EPOLLERR|unix.EPOLLHUP|unix.EPOLLRDHUP) != 0 {
		s.readServer()
	}
	s.settle()
}

func (s *looped) readServer() {
	n, err := s.server.read(s.loop.buf)
	switch {
	case n > 0:
		s.answer(s.loop.buf[:n])
		return
	case err == nil:
		return
	case s.said:
		s.closed(EndClient, s.engine.Ready())
	case err == io.EOF:
		s.closed(EndServer, s.engine.Ready())
	default:
		s.closed(EndServerError, s.engine.Ready())
	}
	s.server.eof = true
}

// answer hands bytes of the server to the engine and writes what comes out.
func (s *looped) answer(in []byte) {
	out := &s.loop.out
	out.Reset()
	err := s.engine.FromServer(in, out)
	s.quiet = endsReady(in)
	s.carryOut(out)
	if err != nil {
		s.stop(&stop{reason: EndProtocol, urgent: true})
	}
}

// announce raises the tokens in a goroutine of its own. The server's replies flow meanwhile, and a client that closes is
// noticed.
func (s *looped) announce(l tokens.List, about tokens.Session) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.announces = cancel
	if s.left {
		cancel()
	}
	s.work.Go(func() {
		defer cancel()
		defer func() {
			if r := recover(); r != nil {
				s.panicked(r)
				s.post(s.cut)
			}
		}()
		marks, err := s.raise(ctx, about, l)
		s.post(func() { s.announced(marks, err) })
	})
}

// abandonAnnounce: nobody waits for the raise any more. It goes on without the session.
func (s *looped) abandonAnnounce() {
	if !s.left {
		time.AfterFunc(leftTime, func() { s.post(s.abandonHeld) })
	}
	s.left = true
	if s.announces != nil {
		s.announces()
	}
}

// abandonHeld: the client has gone, and the server does not answer what the engine waits for. What the client has sent
// behind that is not carried out any more.
func (s *looped) abandonHeld() {
	if !s.held || s.dropping {
		return
	}
	s.closed(EndClient, s.engine.Ready())
	s.rest = nil
	unix.Shutdown(s.server.fd, unix.SHUT_WR)
	s.dropping = true
	s.settle()
}

func (s *looped) announced(marks []tokens.Mark, err *tokens.Error) {
	s.announces = nil
	out := &s.loop.out
	out.Reset()
	s.engine.Announced(marks, err, out)
	s.carryOut(out)
	s.settle()
}

// settle looks at where the session stands after an event: what the engine would not take before, who has closed, what
// to wait for now.
func (s *looped) settle() {
	for !s.over && !s.away && !s.held && len(s.rest) > 0 {
		in := s.rest
		s.rest = nil
		s.feed(in)
	}
	switch {
	case s.over || s.away:
		return
	case s.server.eof && !s.client.blocked():
		s.leave(ending{})
		return
	case s.client.eof && !s.held && !s.dropping && !s.server.blocked():
		// As PostgreSQL does for a client that has shut down its side: what it sent is still carried out and answered.
		s.closed(EndClient, s.engine.Ready())
		unix.Shutdown(s.server.fd, unix.SHUT_WR)
		s.dropping = true
	case s.draining && !s.held && !s.engine.InTransaction():
		s.stop(&stop{reason: EndDrained, words: shuttingDown})
		return
	}
	var c, d uint32
	switch {
	case s.client.eof:
	case s.dropping || !s.held && !s.server.blocked():
		c = unix.EPOLLIN
	case s.held && !s.left:
		c = unix.EPOLLRDHUP
	}
	if s.client.blocked() {
		c |= unix.EPOLLOUT
	} else if !s.server.eof {
		d = unix.EPOLLIN
	}
	if s.server.blocked() {
		d |= unix.EPOLLOUT
	}
	if !s.client.want(c) || !s.server.want(d) {
		s.unwatched()
	}
}
