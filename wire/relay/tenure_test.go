package relay

import (
	"context"
	"net"
	"testing"

	"github.com/fenceproxy/fenceproxy/wire"
)

// holding is a Holder that answers with what it is made of.
type holding func(ctx context.Context) (*Tenure, *wire.Error)

func (h holding) Enter(ctx context.Context) (*Tenure, *wire.Error) { return h(ctx) }
func (h holding) Fenced(*Tenure)                                   {}

func holdingServer(t *testing.T, h holding) (*testServer, chan wire.Startup) {
	started := make(chan wire.Startup, 10)
	upstream := fakeUpstreamAny(t, func(c *net.TCPConn, start wire.Startup) {
		started <- start
		answering(c)
	})
	return startServer(t, upstream, forward, func(cfg *ServerConfig) { cfg.Holder = h }), started
}

func TestTenureGivesTheToken(t *testing.T) {
	s, started := holdingServer(t, func(context.Context) (*Tenure, *wire.Error) {
		return &Tenure{Token: "billing=34", ReadOnly: true, Over: context.Background()}, nil
	})
	c := connect(t, s.addr)
	send(t, c, startupPacket("user", "u", "options", "-c default_transaction_read_only=off", "default_transaction_read_only", "off"))
	expect(t, c, hello)
	start := receive(t, "startup packet", started)
	for name, want := range map[string]string{"fence.token": "billing=34", "default_transaction_read_only": "on", "user": ""} {
		if got, _ := start.Setting(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if start.User() != "u" {
		t.Errorf("user %q", start.User())
	}
}

func TestClientsOwnTokenIsRefused(t *testing.T) {
	s, _ := holdingServer(t, func(context.Context) (*Tenure, *wire.Error) { t.Error("asked"); return nil, nil })
	for _, params := range [][]string{{"fence.token", "35"}, {"Fence.Token", "35"}, {"options", "-c fence.token=35"}, {"options", "--fence.token="}} {
		c := connect(t, s.addr)
		send(t, c, startupPacket(append([]string{"user", "u"}, params...)...))
		expectFatal(t, c, "ZF004")
	}
}

func TestNotHeldIsTold(t *testing.T) {
	s, _ := holdingServer(t, func(context.Context) (*Tenure, *wire.Error) { return nil, fatalError("57P03", "somebody else", "") })
	c := connect(t, s.addr)
	send(t, c, startupPacket("user", "u"))
	expectFatal(t, c, "57P03")
	poll(t, "no session", func() bool { return s.Sessions() == 0 })
}

// allQuiet: a pump writes first and notes afterwards that the server has ended its reply.
func allQuiet(s *Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.running {
		if p, ok := r.runner.(*pumps); ok && !p.quiet.Load() {
			return false
		}
	}
	return true
}

// Mutant: follow does nothing.
func TestSessionsEndWithTheirTenure(t *testing.T) {
	first, end := context.WithCancel(context.Background())
	over := first
	s, _ := holdingServer(t, func(context.Context) (*Tenure, *wire.Error) {
		return &Tenure{Token: "33", Over: over, Words: fatalError("ZF001", "the lock is lost", "")}, nil
	})
	idle, inside := login(t, s.addr), login(t, s.addr)
	send(t, inside, query("begin"))
	expect(t, inside, inBlock)
	over = context.Background()
	fresh := login(t, s.addr)
	poll(t, "both drivers know that the server is quiet", func() bool { return allQuiet(s.Server) })
	end()
	expectFatal(t, idle, "ZF001")
	expectFatal(t, inside, "ZF001")
	s.waitEnded(t, EndTenure, 2)
	send(t, fresh, query("select"))
	expect(t, fresh, readyFor)
	over = first // one that ended while the session was beginning
	c := connect(t, s.addr)
	send(t, c, startupPacket("user", "u"))
	buf := make([]byte, 100)
	for {
		if _, err := c.Read(buf); err != nil {
			break
		}
	}
	s.waitEnded(t, EndTenure, 3)
}

// A client that waits for the lock and goes away is not waited for, nor is it in the way of a shutdown.
func TestWaitingClientLeaves(t *testing.T) {
	entered := make(chan struct{}, 10)
	s, _ := holdingServer(t, func(ctx context.Context) (*Tenure, *wire.Error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, fatalError("57P03", "shutting down", "")
	})
	c := connect(t, s.addr)
	send(t, c, startupPacket("user", "u"))
	receive(t, "waiting", entered)
	c.Close()
	poll(t, "no session", func() bool { return s.Sessions() == 0 })
	c = connect(t, s.addr)
	send(t, c, startupPacket("user", "u"))
	receive(t, "waiting", entered)
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	expectFatal(t, c, "57P03")
}

// A session that begins while another instance holds the lock is read-only, whatever the configuration says.
func TestReadOnlyTenure(t *testing.T) {
	s, _ := holdingServer(t, func(context.Context) (*Tenure, *wire.Error) { return nil, nil })
	for _, tt := range []struct {
		tenure *Tenure
		want   TokenlessPolicy
	}{{nil, TokenlessReadWrite}, {&Tenure{Token: "34"}, TokenlessReadWrite}, {&Tenure{ReadOnly: true}, TokenlessReadOnly}} {
		cfg := s.enroll(&wire.Startup{}, false, tt.tenure)
		s.discharge(cfg)
		if cfg.Tokenless != tt.want || !cfg.TokenIsOurs {
			t.Errorf("%+v: policy %v, the token is ours: %v", tt.tenure, cfg.Tokenless, cfg.TokenIsOurs)
		}
	}
}
