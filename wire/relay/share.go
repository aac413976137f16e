package relay

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// A new process takes over without a refused connection when it listens on the same socket as the old one for a while: it
// is handed the socket (handover_linux.go), so what waits in its queue is accepted by either. SO_REUSEPORT alone does not
// do it: each process would have a queue of its own then, and the kernel resets what is in one that is closed
// (inet_connection_sock.c inet_csk_listen_stop).

// Open listens on an address: host:port, or the path of a Unix socket, whose file gets the mode. A socket file that nobody
// listens on any more is replaced. share: other processes of this user that share it may listen there too; they get the
// socket by Offer.
func Open(ctx context.Context, address string, share bool, mode fs.FileMode) (net.Listener, error) {
	if share {
		if l := takeOver(address); l != nil {
			return l, nil
		}
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	if !strings.HasPrefix(address, "/") {
		if share {
			lc.Control = reusePort
		}
		return lc.Listen(ctx, "tcp", address)
	}
	if err := removeStale(address); err != nil {
		return nil, err
	}
	l, err := lc.Listen(ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	if share { // the file is the next process's when we close
		l.(*net.UnixListener).SetUnlinkOnClose(false)
	}
	if err := os.Chmod(address, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func reusePort(_, _ string, c syscall.RawConn) error {
	var err error
	if failed := c.Control(func(fd uintptr) { err = setReusePort(int(fd)) }); failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("SO_REUSEPORT: %w", err)
	}
	return nil
}

// A last call before a shared listener is closed: connections that this process has accepted log in. The other process
// accepts all that come behind them.
const lastCallTime = time.Second

func (s *Server) lastCall() {
	if !s.cfg.ReusePort {
		return
	}
	s.mu.Lock()
	for _, l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	until := time.Now().Add(lastCallTime)
	for time.Now().Before(until) && (s.accepts.Load() > 0 || s.strangers.open.Load() > 0) {
		time.Sleep(5 * time.Millisecond)
	}
}
