package torture

import (
	"bufio"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gate stands between the proxies and PostgreSQL and holds back single messages: what the proxy sends in one write, a
// guard and the statement behind it, arrives with a pause in between. Control connections do not pass through it.
type gate struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	random *rand.Rand
	often  float64
	most   time.Duration
	held   []Event
	conns  map[net.Conn]bool
	freeze *freeze
	muted  time.Time // nothing passes until then
}

// freeze stops one connection at one place until it is told to go on.
type freeze struct {
	at      func(kinds string) int // how many of these messages pass before it stops; -1: all
	replies bool                   // stop what comes back instead, once at() has said where
	reached chan struct{}
	release chan struct{}
}

// stopAt arms a freeze: the first write that at() wants stops there.
func (g *gate) stopAt(replies bool, at func(kinds string) int) *freeze {
	f := &freeze{at: at, replies: replies, reached: make(chan struct{}), release: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.freeze = f
	return f
}

// frozen takes the freeze if these messages are what it waits for.
func (g *gate) frozen(kinds string) (f *freeze, pass int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.freeze == nil {
		return nil, 0
	}
	if pass = g.freeze.at(kinds); pass < 0 {
		return nil, 0
	}
	f, g.freeze = g.freeze, nil
	return f, pass
}

func openGate(t testing.TB, target string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, target: target, random: rand.New(rand.NewPCG(0, 0)), conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		l.Close()
		g.cut()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(c)
		}
	}()
	return g
}

func (g *gate) addr() string { return g.listener.Addr().String() }

// obey sets how often and how long messages are held.
func (g *gate) obey(s Schedule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.random, g.often, g.most = rand.New(rand.NewPCG(s.Seed, 2)), s.Hold/6, s.HoldFor
}

// lead sends new connections to another server, and ends those that there are.
func (g *gate) lead(target string) {
	g.mu.Lock()
	g.target = target
	g.mu.Unlock()
	g.cut()
}

func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		c.Close()
	}
}

// mute lets nothing pass to the server for a while.
func (g *gate) mute(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.muted = time.Now().Add(d)
}

func (g *gate) waitUntilHeard() {
	g.mu.Lock()
	until := g.muted
	g.mu.Unlock()
	time.Sleep(time.Until(until))
}

// takeHeld returns what was held since the last call.
func (g *gate) takeHeld() []Event {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := g.held
	g.held = nil
	return held
}

func (g *gate) pass(proxy net.Conn) {
	defer proxy.Close()
	g.mu.Lock()
	target := g.target
	g.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	g.note(true, proxy, server)
	defer g.note(false, proxy, server)
	var silence atomic.Pointer[freeze]
	go func() {
		b := make([]byte, 1<<15)
		for {
			n, err := server.Read(b)
			if f := silence.Load(); f != nil {
				<-f.release
			}
			if n > 0 {
				proxy.Write(b[:n])
			}
			if err != nil {
				proxy.(*net.TCPConn).CloseWrite()
				return
			}
		}
	}()
	from := bufio.NewReaderSize(proxy, 1<<16)
	first := true // the startup packet has no type
	for {
		b, kinds, ends, err := readMessages(from, first)
		first = false
		if len(b) > 0 {
			g.waitUntilHeard()
			if f, pass := g.frozen(kinds); f != nil && f.replies {
				silence.Store(f)
				close(f.reached)
			} else if f != nil {
				cut := 0
				if pass > 0 {
					cut = ends[pass-1]
				}
				if _, err := server.Write(b[:cut]); err != nil {
					return
				}
				close(f.reached)
				<-f.release
				b = b[cut:]
			} else if d, where := g.lot(len(ends)); d > 0 {
				if _, err := server.Write(b[:ends[where]]); err != nil {
					return
				}
				g.hold(d, "at the server, behind "+kinds[:where+1]+" of "+kinds)
				b = b[ends[where]:]
			}
			if _, err := server.Write(b); err != nil {
				return
			}
		}
		if err != nil {
			server.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// readMessages reads whole messages: one, and what has arrived with it.
func readMessages(r *bufio.Reader, startup bool) (b []byte, kinds string, ends []int, err error) {
	header := 5
	if startup {
		header = 4
	}
	for {
		h := make([]byte, header)
		if _, err := io.ReadFull(r, h); err != nil {
			return b, kinds, ends, err
		}
		body := make([]byte, binary.BigEndian.Uint32(h[header-4:])-4)
		if _, err := io.ReadFull(r, body); err != nil {
			return b, kinds, ends, err
		}
		if !startup {
			kinds += string(h[0])
		} else {
			kinds = "0"
		}
		b = append(append(b, h...), body...)
		ends = append(ends, len(b))
		if startup || r.Buffered() == 0 || len(b) > 1<<16 {
			return b, kinds, ends, nil
		}
	}
}

func (g *gate) note(open bool, conns ...net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		if open {
			g.conns[c] = true
		} else {
			delete(g.conns, c)
		}
	}
}

func (g *gate) lot(n int) (d time.Duration, where int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.often == 0 || g.random.Float64() >= g.often {
		return 0, 0
	}
	return time.Duration(g.random.Int64N(int64(g.most))), g.random.IntN(n)
}

func (g *gate) hold(d time.Duration, step string) {
	e := Event{From: now(), Who: "gate", Op: Held, Shape: step}
	time.Sleep(d)
	e.To = now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = append(g.held, e)
}
