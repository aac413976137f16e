package relay

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/wire"
)

// ending is what is left to be done when a session has left its loop.
type ending struct {
	cut      bool   // nothing: close both
	toClient []byte // not written yet, last words included
	toServer []byte
	goodbye  bool // end the server's session properly
}

func (s *looped) drain() {
	s.post(func() {
		s.draining = true
		s.settle()
	})
}

func (s *looped) kill(why *stop) {
	s.post(func() {
		s.end(why.reason)
		if !s.quiet {
			s.cut()
			return
		}
		s.stop(why)
	})
}

func (s *looped) loginExpired() {
	s.post(func() {
		if !s.engine.Ready() {
			s.stop(loginTimeout)
		}
	})
}

func (s *looped) stop(st *stop) {
	if s.over {
		return
	}
	s.end(st.reason)
	e := ending{toClient: s.client.unsent(), goodbye: !st.urgent}
	if st.words != nil {
		e.toClient = wire.AppendError(e.toClient, st.words)
	}
	if e.goodbye && !s.dropping {
		e.toServer = append(s.server.unsent(), terminate...)
	}
	s.leave(e)
}

// cut ends the session without a word.
func (s *looped) cut() { s.leave(ending{cut: true}) }

func (s *looped) clientBroken() {
	s.closed(EndClientError, s.engine.Ready())
	s.cut()
}

// serverUnwritable: the server has gone away, perhaps with last words that are still to be read.
func (s *looped) serverUnwritable() {
	s.dropping = true
	s.server.out, s.server.sent = nil, 0
}

// unwatched: epoll refused a socket (out of the kernel's memory, or of the user's watches), so the session would hang.
func (s *looped) unwatched() {
	s.log.Error("cannot watch a socket of the session")
	s.end(EndServerError)
	s.cut()
}

// leave takes the session out of the loop and lets its goroutine do the rest.
func (s *looped) leave(e ending) {
	if s.over {
		return
	}
	s.over = true
	s.loop.forget(&s.client)
	s.loop.forget(&s.server)
	s.client.out, s.server.out = nil, nil
	s.done <- e
}

// farewell runs in the session's goroutine.
func (s *looped) farewell(e *ending) {
	client, server := newSocketFile(s.client.fd), newSocketFile(s.server.fd)
	defer client.Close()
	if e.goodbye {
		server.SetWriteDeadline(time.Now().Add(lingerTime))
		server.Write(e.toServer)
	}
	outlast(s.life, server, s.parted)
	if e.cut {
		return
	}
	if len(e.toClient) > 0 {
		client.SetWriteDeadline(time.Now().Add(lingerTime))
		client.Write(e.toClient)
	}
	var buf [512]byte
	linger(client, buf[:])
}

// socketFile is a socket that has come back from a loop.
type socketFile struct{ *os.File }

func newSocketFile(fd int) socketFile { return socketFile{os.NewFile(uintptr(fd), "socket")} }

func (f socketFile) CloseWrite() error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return c.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
}
