package sidecar

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// link passes bytes on to a service, as late as it is told.
type link struct {
	listener net.Listener
	late     atomic.Int64 // nanoseconds, of each direction
}

func newLink(t *testing.T, to string) *link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	k := &link{listener: l}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go k.pass(far, near)
			go k.pass(near, far)
		}
	}()
	return k
}

func (k *link) host() string { return k.listener.Addr().String() }

func (k *link) delay(d time.Duration) { k.late.Store(int64(d)) }

// pass copies one direction in order; each piece comes when its delay is over, however many are under way.
func (k *link) pass(to, from net.Conn) {
	type piece struct {
		b  []byte
		at time.Time
	}
	way := make(chan piece, 1<<14)
	go func() {
		defer to.Close()
		for p := range way {
			time.Sleep(time.Until(p.at))
			if _, err := to.Write(p.b); err != nil {
				from.Close()
				io.Copy(io.Discard, from)
				break
			}
		}
		for range way {
		}
	}()
	defer close(way)
	for {
		b := make([]byte, 4096)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		way <- piece{b[:n], time.Now().Add(time.Duration(k.late.Load()))}
	}
}
