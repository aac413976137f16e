package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A roll: a new server begins to listen, the old one steps aside, drains and ends. No client is refused, cut off without
// a word, or kept waiting, wherever it is in its conversation.
func TestRollRefusesNobody(t *testing.T) {
	dir, err := os.MkdirTemp("", "fp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	upstream := fakeUpstream(t, answering)
	for _, address := range []string{"127.0.0.1:0", filepath.Join(dir, "s")} {
		network := "tcp"
		if strings.HasPrefix(address, "/") {
			network = "unix"
		}
		start := func() *Server {
			t.Helper()
			s, err := NewServer(ServerConfig{Current: func() *Config { return &Config{Mode: ModeOff} },
				Upstream: Upstream{Network: "tcp", Address: upstream}, ReusePort: true})
			if err != nil {
				t.Fatal(err)
			}
			at, err := s.Listen(address, false)
			if err != nil {
				t.Fatal(err)
			}
			address = at.String()
			go s.Serve()
			return s
		}
		s := start()
		first := address // start assigns it
		stop := make(chan struct{})
		var clients sync.WaitGroup
		var whole, told atomic.Int64
		var failed atomic.Bool
		for range 4 {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					switch err := converse(network, first); {
					case err == nil:
						whole.Add(1)
					case errors.Is(err, errTold):
						told.Add(1)
					default:
						failed.Store(true)
						t.Error(err)
						return
					}
				}
			})
		}
		for range 5 {
			poll(t, "clients", func() bool { return whole.Load() > 20 || failed.Load() })
			whole.Store(0)
			next := start()
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			if err := s.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			s = next
		}
		poll(t, "clients", func() bool { return whole.Load() > 20 || failed.Load() })
		close(stop)
		clients.Wait()
		s.Close()
		t.Logf("%s: %d told of the end", network, told.Load())
	}
}

var errTold = errors.New("57P01")

// converse logs in, asks, and leaves.
func converse(network, address string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(wait))
	for _, step := range []struct{ out, in []byte }{{startupPacket("user", "u"), hello}, {query("select 1"), readyFor}} {
		if _, err := c.Write(step.out); err != nil {
			return err
		}
		got := make([]byte, len(step.in))
		n, err := io.ReadFull(c, got)
		if n > 0 && bytes.HasPrefix(got[:n], []byte("E")) {
			rest, _ := io.ReadAll(c)
			if bytes.Contains(append(got, rest...), []byte("C57P01\x00")) {
				return errTold
			}
		}
		if err != nil {
			return err
		}
	}
	_, err = c.Write(terminate)
	return err
}

// Two processes that did not both ask to share cannot.
func TestListenWithoutSharing(t *testing.T) {
	l, err := Open(context.Background(), "127.0.0.1:0", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if second, err := Open(context.Background(), l.Addr().String(), false, 0); err == nil {
		second.Close()
		t.Error("an address was taken that another one has")
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), path, true, 0o700); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file was replaced: %v", err)
	}
}
