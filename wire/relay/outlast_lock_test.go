package relay

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// A server that hangs up while sessions are being ended: whoever ends them holds the server's lock and waits for the reader,
// who tells that the session has parted, which takes that lock. Mutant: Read calls parted while it holds reading.
func TestHangUpWhileSessionsAreEnded(t *testing.T) {
	near, far := net.Pipe()
	var lock sync.Mutex
	telling := make(chan struct{})
	tell := sync.OnceFunc(func() {
		close(telling)
		lock.Lock()
		defer lock.Unlock()
	})
	c := &lasting{Conn: pipeSocket{near}, ctx: context.Background(), parted: tell}
	lock.Lock()
	go c.Read(make([]byte, 1))
	far.Close()
	<-telling
	closed := make(chan struct{})
	go func() { c.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(wait):
		t.Error("Close waits for a reader that waits for the one who closes")
	}
	lock.Unlock()
	<-closed
}

type pipeSocket struct{ net.Conn }

func (pipeSocket) CloseWrite() error { return nil }
