package relay

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// generations is a server whose configuration can be replaced.
func generations(t *testing.T, engine func() *forwarder) (s *testServer, next func()) {
	var current atomic.Pointer[Config]
	current.Store(&Config{Mode: ModeOff})
	s = startServer(t, fakeUpstream(t, answering), engine, func(cfg *ServerConfig) {
		cfg.Current = current.Load
	})
	return s, func() { current.Store(&Config{Mode: ModeOff, Generation: current.Load().Generation + 1}) }
}

func TestRetireEndsSessionsWithTheirTransaction(t *testing.T) {
	s, next := generations(t, forward)
	idle, busy := login(t, s.addr), login(t, s.addr)
	send(t, busy, query("begin"))
	expect(t, busy, inBlock)
	next()
	fresh := login(t, s.addr)
	if n := s.Old(); n != 2 {
		t.Errorf("%d old sessions", n)
	}
	cut := make(chan int, 1)
	go func() { cut <- s.Retire(context.Background()) }()
	expectFatal(t, idle, "57P01")
	select {
	case <-cut:
		t.Fatal("a transaction is open")
	case <-time.After(50 * time.Millisecond): // nothing tells that it waits
	}
	send(t, busy, query("commit"))
	expect(t, busy, readyFor)
	expectFatal(t, busy, "57P01")
	if n := receive(t, "retired", cut); n != 0 {
		t.Errorf("%d cut off", n)
	}
	send(t, fresh, query("select 1"))
	expect(t, fresh, readyFor)
	if n := s.Old(); n != 0 {
		t.Errorf("%d old sessions", n)
	}
}

func TestRetireCutsOffWhatIsLeft(t *testing.T) {
	s, next := generations(t, forward)
	busy := login(t, s.addr)
	send(t, busy, query("begin"))
	expect(t, busy, inBlock)
	next()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	cut := make(chan int, 1)
	go func() { cut <- s.Retire(ctx) }()
	if n := receive(t, "retired", cut); n != 1 {
		t.Errorf("%d cut off", n)
	}
	expectFatal(t, busy, "57P01")
	s.waitEnded(t, EndDrainDeadline, 1)
}

// A session that was accepted under the old configuration and is not logged in yet must not slip through.
func TestRetireMeetsSessionsThatLogIn(t *testing.T) {
	hold, dialed := make(chan struct{}), make(chan struct{}, 1)
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		dialed <- struct{}{}
		<-hold
		answering(c)
	})
	var current atomic.Pointer[Config]
	current.Store(&Config{Mode: ModeOff})
	s := startServer(t, upstream, nil, func(cfg *ServerConfig) { cfg.Current = current.Load })
	c := connect(t, s.addr)
	send(t, c, startupPacket("user", "u"))
	receive(t, "the server's connection", dialed)
	current.Store(&Config{Mode: ModeOff, Generation: 1})
	retired := make(chan int, 1)
	go func() { retired <- s.Retire(context.Background()) }()
	close(hold)
	receive(t, "retired", retired)
	s.waitEnded(t, EndDrained, 1)
}

func TestLimitsChange(t *testing.T) {
	s := startServer(t, fakeUpstream(t, answering), forward, func(cfg *ServerConfig) { cfg.MaxConnections = 1 })
	login(t, s.addr)
	refused := connect(t, s.addr)
	send(t, refused, startupPacket("user", "u"))
	expectFatal(t, refused, "53300")
	s.SetLimits(Limits{MaxConnections: 2, AllowReplication: true})
	c := connect(t, s.addr)
	send(t, c, startupPacket("user", "u", "replication", "true"))
	expect(t, c, hello)
	s.SetLimits(Limits{MaxConnections: 3})
	refused = connect(t, s.addr)
	send(t, refused, startupPacket("user", "u", "replication", "true"))
	expectFatal(t, refused, "0A000")
}
