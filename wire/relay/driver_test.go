package relay

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// wait bounds everything in these tests that should happen soon.
const wait = 10 * time.Second

// forwarder is an engine that forwards and knows only ReadyForQuery. Hooks see each call first; one that returns true
// has dealt with it.
type forwarder struct {
	fromClient func(in []byte, out *Output) (n int, dealt bool)
	fromServer func(in []byte, out *Output) (dealt bool)
	announced  func(marks []tokens.Mark, err *tokens.Error, out *Output)
	ready      bool
	long       bool // say so of everything
	state      byte
	waiting    int
}

func (f *forwarder) FromClient(in []byte, out *Output) (int, error) {
	if f.fromClient != nil {
		if n, dealt := f.fromClient(in, out); dealt {
			return n, nil
		}
	}
	if len(in) > 0 && in[0] == wire.FrontendQuery {
		f.waiting++
	}
	out.ToServer.add(in)
	return len(in), nil
}

func (f *forwarder) FromServer(in []byte, out *Output) error {
	if f.fromServer != nil && f.fromServer(in, out) {
		return nil
	}
	if endsReady(in) {
		f.ready, f.state, f.waiting = true, in[len(in)-1], 0
	}
	out.ToClient.add(in)
	return nil
}

func (f *forwarder) Announced(marks []tokens.Mark, err *tokens.Error, out *Output) {
	f.announced(marks, err, out)
}
func (f *forwarder) InTransaction() bool {
	return f.waiting > 0 || f.state != 0 && f.state != wire.TxIdle
}
func (f *forwarder) Ready() bool         { return f.ready }
func (f *forwarder) Long(in []byte) bool { return f.long }

// counts are the Recorder and ServerEvents of a test.
type counts struct {
	discard
	mu       sync.Mutex
	opened   int
	ended    map[EndReason]int
	refused  map[RefuseReason]int
	canceled map[bool]int
	panics   int
}

func (c *counts) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}
func (c *counts) SessionOpened()                             { c.change(func() { c.opened++ }) }
func (c *counts) SessionClosed(r EndReason, _ time.Duration) { c.change(func() { c.ended[r]++ }) }
func (c *counts) Refused(r RefuseReason)                     { c.change(func() { c.refused[r]++ }) }
func (c *counts) Dialed(time.Duration, bool)                 {}
func (c *counts) Canceled(relayed bool)                      { c.change(func() { c.canceled[relayed]++ }) }
func (c *counts) Panicked()                                  { c.change(func() { c.panics++ }) }

func (c *counts) waitEnded(t *testing.T, r EndReason, n int) {
	t.Helper()
	poll(t, "sessions ended as "+r.String(), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.ended[r] == n
	})
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", wait, what)
		}
	}
}

// receive waits for a value of c.
func receive[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(wait):
		t.Fatalf("not within %v: %s", wait, what)
	}
	return v
}

// testServer is a Server in front of address, and what its sessions' engines are.
type testServer struct {
	*Server
	counts
	addr   string
	served chan struct{}
}

// pumpsOnly has the same tests look at the driver that sessions with TLS have.
var pumpsOnly = flag.Bool("relay.pumps", false, "run sessions by goroutines, not in event loops")

func startServer(t *testing.T, upstream string, engine func() *forwarder, change func(*ServerConfig)) *testServer {
	t.Helper()
	ts := &testServer{served: make(chan struct{}),
		counts: counts{ended: map[EndReason]int{}, refused: map[RefuseReason]int{}, canceled: map[bool]int{}}}
	network := "tcp"
	if strings.HasPrefix(upstream, "/") {
		network = "unix"
	}
	cfg := ServerConfig{Current: func() *Config { return &Config{Mode: ModeOff} },
		Upstream: Upstream{Network: network, Address: upstream}, Recorder: &ts.counts, Events: &ts.counts, Log: testLog(t)}
	if *pumpsOnly {
		cfg.Loops = -1
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if ts.Server, err = NewServer(cfg); err != nil {
		t.Fatal(err)
	}
	if engine != nil {
		ts.newEngine = func(*Config, Recorder, Startup) machine { return engine() }
	}
	addr, err := ts.Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ts.addr = addr.String()
	go func() {
		ts.Serve()
		close(ts.served)
	}()
	t.Cleanup(func() {
		ts.Close()
		<-ts.served
	})
	return ts
}

func testLog(t *testing.T) *zap.Logger {
	if os.Getenv("FENCEPROXY_TEST_LOG") == "" {
		return zap.NewNop()
	}
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m"}), zapcore.AddSync(os.Stderr), zapcore.DebugLevel))
}

// fakeUpstream accepts connections and runs serve on each session, after the startup packet. It closes on a cancel.
func fakeUpstream(t *testing.T, serve func(c *net.TCPConn)) string {
	return fakeUpstreamAny(t, func(c *net.TCPConn, start wire.Startup) {
		if start.Kind == wire.StartupSession {
			serve(c)
		}
	})
}

// fakeUpstreamAny is fakeUpstream for any kind of startup packet.
func fakeUpstreamAny(t *testing.T, serve func(c *net.TCPConn, start wire.Startup)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if start, err := wire.ReadStartup(c); err == nil {
					serve(c.(*net.TCPConn), start)
				}
			}()
		}
	}()
	return l.Addr().String()
}

var (
	authOK   = []byte("R\x00\x00\x00\x08\x00\x00\x00\x00")
	readyFor = []byte("Z\x00\x00\x00\x05I")
	inBlock  = []byte("Z\x00\x00\x00\x05T")
	hello    = append(bytes.Clone(authOK), readyFor...)
)

func startupPacket(params ...string) []byte {
	b := []byte{0, 0, 0, 0, 0, 3, 0, 0}
	for _, p := range params {
		b = append(append(b, p...), 0)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

func connect(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, wait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * wait))
	return c.(*net.TCPConn)
}

// login connects and reads the fake upstream's hello.
func login(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c := connect(t, addr)
	send(t, c, startupPacket("user", "u"))
	expect(t, c, hello)
	return c
}

func send(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %q, %v; want %q", got[:n], err, want)
	}
}

// expectFatal reads an ErrorResponse and the end of the stream.
func expectFatal(t *testing.T, c net.Conn, code string) wire.ErrorFields {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", b, err)
	}
	if len(b) < wire.HeaderLen || b[0] != wire.BackendErrorResponse {
		t.Fatalf("got %q, want a FATAL %s", b, code)
	}
	fields := wire.ErrorFields(b[wire.HeaderLen:])
	severity, _ := fields.Get(wire.FieldSeverity)
	if got, _ := fields.Get(wire.FieldCode); string(got) != code || string(severity) != "FATAL" {
		t.Fatalf("got %q, want a FATAL %s", b, code)
	}
	return fields
}

func query(sql string) []byte { return wire.AppendQuery(nil, sql) }

// answering is an upstream that answers each chunk with a ReadyForQuery: 'T' behind "begin", else 'I'.
func answering(c *net.TCPConn) {
	c.Write(hello)
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if err != nil || buf[0] == wire.FrontendTerminate {
			return
		}
		if bytes.Contains(buf[:n], []byte("begin")) {
			c.Write(inBlock)
		} else {
			c.Write(readyFor)
		}
	}
}

func forward() *forwarder { return new(forwarder) }

// announcerFunc makes a function an Announcer.
type announcerFunc func(ctx context.Context, s tokens.Session, l tokens.List) ([]tokens.Mark, *tokens.Error)

func (f announcerFunc) Announce(ctx context.Context, s tokens.Session, l tokens.List) ([]tokens.Mark, *tokens.Error) {
	return f(ctx, s, l)
}

// nothingLeft waits until the test is back at the goroutines and descriptors it began with.
func nothingLeft(t *testing.T) func() {
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	return func() {
		t.Helper()
		poll(t, "goroutines and descriptors back to what they were", func() bool {
			return runtime.NumGoroutine() <= goroutines && descriptors(t) <= files
		})
	}
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(list)
}

// What the tests of this package say about event loops is true only if they are used.
func TestPlainSessionsRunInALoop(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("event loops are for Linux")
	}
	s := startServer(t, fakeUpstream(t, answering), nil, nil)
	login(t, s.addr)
	s.loops.mu.Lock()
	defer s.loops.mu.Unlock()
	want := 1
	if *pumpsOnly {
		want = 0
	}
	if len(s.loops.all) != want || want == 1 && s.loops.all[0].sessions.Load() != 1 {
		t.Errorf("%d loops, want %d", len(s.loops.all), want)
	}
}
