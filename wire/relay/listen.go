package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

type listener struct {
	net.Listener
	pooled bool
}

// Listen adds an address to serve: host:port, or the path of a Unix socket, which every local user may then connect to,
// as to PostgreSQL's own. A socket file that nobody listens on any more is replaced. pooled marks a listener behind a
// transaction pooler. The address is that which was bound.
func (s *Server) Listen(address string, pooled bool) (net.Addr, error) {
	l, err := Open(s.ctx, address, s.cfg.ReusePort, 0o777)
	if err != nil {
		return nil, err
	}
	s.listeners = append(s.listeners, listener{l, pooled})
	if s.cfg.ReusePort {
		if strings.HasSuffix(address, ":0") {
			address = l.Addr().String()
		}
		context.AfterFunc(s.accepting, Offer(address, l))
	}
	return l.Addr(), nil
}

// removeStale removes the socket file of a process that is gone. Anything else in its place stays.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // a full backlog, for example, is EAGAIN
		return fmt.Errorf("%s is in use by another process", path)
	}
	return os.Remove(path)
}

// Serve accepts clients on all listeners until Shutdown or Close. It returns nil then.
func (s *Server) Serve() error {
	var accepting sync.WaitGroup
	go s.sweeps()
	for _, l := range s.listeners {
		accepting.Go(func() { s.accept(l) })
	}
	accepting.Wait()
	return nil
}

const maxAcceptPause = time.Second

// accept ends when the listener is closed. Other errors (out of descriptors, a client that was gone before its turn) pass.
func (s *Server) accept(l listener) {
	pause := time.Duration(0)
	s.accepts.Add(1)
	defer s.accepts.Add(-1)
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			pause = min(max(2*pause, 5*time.Millisecond), maxAcceptPause)
			s.log.Error("cannot accept", zap.Stringer("address", l.Addr()), zap.Error(err))
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
			}
			continue
		}
		pause = 0
		if t, ok := c.(*net.TCPConn); ok && s.cfg.ReusePort { // a socket that was handed over has forgotten it
			t.SetKeepAliveConfig(keepAlive)
		}
		if !s.greet(c) {
			c.Close()
			continue
		}
		go s.serve(c, l.pooled)
	}
}

// greet takes a connection into the books, unless there are too many that are no sessions, or it slipped in while the
// listener was being closed.
func (s *Server) greet(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	if !s.strangers.enter() {
		s.events.Refused(RefuseFlood)
		return false
	}
	s.conns[c] = struct{}{}
	s.work.Add(1)
	return true
}

func (s *Server) forget(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// adopt moves a connection from those without a session to those with one.
func (s *Server) adopt(c net.Conn, ses *tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.running[ses] = struct{}{}
	if s.draining || ses.generation < s.oldest {
		ses.drain()
	}
	if s.closed || ses.generation < s.cutoff {
		ses.kill(tooLate)
	}
}

func (s *Server) disown(ses *tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, ses)
}
