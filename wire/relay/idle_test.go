package relay

import (
	"bytes"
	"net"
	"testing"
	"time"
)

func idleServer(t *testing.T, upstream string, limits IdleLimits) *testServer {
	return startServer(t, upstream, nil, func(cfg *ServerConfig) {
		cfg.Current = func() *Config { return &Config{Mode: ModeOff, Idle: limits} }
	})
}

func TestIdleTimeouts(t *testing.T) {
	const short = 80 * time.Millisecond
	for _, tc := range []struct {
		name    string
		limits  IdleLimits
		inBlock bool
		code    string // "": goes on
	}{
		{"outside", IdleLimits{Outside: short}, false, "57P05"},
		{"outside, but in a transaction", IdleLimits{Outside: short}, true, ""},
		{"inside", IdleLimits{Inside: short}, true, "25P03"},
		{"inside, but in none", IdleLimits{Inside: short}, false, ""},
		{"the other limit is longer", IdleLimits{Outside: time.Hour, Inside: short}, false, ""},
		{"both", IdleLimits{Outside: short, Inside: time.Hour}, false, "57P05"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := idleServer(t, fakeUpstream(t, answering), tc.limits)
			c := login(t, s.addr)
			if tc.inBlock {
				send(t, c, query("begin"))
				expect(t, c, inBlock)
			}
			if tc.code != "" {
				expectFatal(t, c, tc.code)
				s.waitEnded(t, EndIdle, 1)
				return
			}
			time.Sleep(4 * short) // nothing may happen
			send(t, c, query("select 1"))
			expect(t, c, readyFor)
		})
	}
}

// A client that is at work is not idle, however long the server takes, and however it has asked.
func TestIdleWaitsForTheServer(t *testing.T) {
	const limit = 100 * time.Millisecond
	slow := func(c *net.TCPConn) {
		c.Write(hello)
		buf := make([]byte, 1024)
		for {
			n, err := c.Read(buf)
			if err != nil || buf[0] == 'X' {
				return
			}
			time.Sleep(4 * limit)
			if bytes.HasPrefix(buf[:n], []byte("E")) { // Execute and Flush: no ReadyForQuery
				c.Write([]byte("C\x00\x00\x00\x0dSELECT 1\x00"))
			} else {
				c.Write(readyFor)
			}
		}
	}
	s := idleServer(t, fakeUpstream(t, slow), IdleLimits{Outside: limit, Inside: limit})
	c := login(t, s.addr)
	send(t, c, query("select pg_sleep(1)"))
	expect(t, c, readyFor)
	send(t, c, []byte("E\x00\x00\x00\x09\x00\x00\x00\x00\x00H\x00\x00\x00\x04"))
	expect(t, c, []byte("C\x00\x00\x00\x0dSELECT 1\x00"))
	send(t, c, []byte("S\x00\x00\x00\x04"))
	expect(t, c, readyFor)
	expectFatal(t, c, "57P05")
}
