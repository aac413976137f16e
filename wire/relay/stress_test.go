package relay

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// pausing is an engine that forwards and pauses at random, to be resumed by a reply of the server or an announcement,
// which both may send something to the server in front of what is held. What the client sends is digits, what the
// engine adds is letters; a lost wake-up shows as a hang, a lost order as a wrong digit.
func pausing(rnd *rand.Rand) *forwarder {
	paused := EffectNone
	resume := func(out *Output) {
		paused = EffectNone
		out.Effect = EffectResume
		if rnd.IntN(2) == 0 {
			out.ToServer.add([]byte("a"))
		}
	}
	return &forwarder{
		fromClient: func(in []byte, out *Output) (int, bool) {
			if paused != EffectNone {
				panic("fed while paused")
			}
			n := len(in)
			switch rnd.IntN(4) {
			case 0: // the server will answer: something is sent
				paused = EffectWait
				n = 1 + rnd.IntN(len(in))
			case 1:
				paused = EffectAnnounce
				n = rnd.IntN(len(in) + 1)
			}
			out.Effect = paused
			for i := range n {
				out.ToServer.add(in[i : i+1])
			}
			return n, true
		},
		fromServer: func(in []byte, out *Output) bool {
			if endsReady(in) {
				return false
			}
			out.ToClient.add(in)
			if paused == EffectWait {
				resume(out)
			}
			return true
		},
		announced: func(_ []tokens.Mark, _ *tokens.Error, out *Output) { resume(out) },
		ready:     true,
	}
}

func TestPausesAtRandom(t *testing.T) {
	upstream := fakeUpstream(t, func(c *net.TCPConn) {
		c.Write(hello)
		io.Copy(c, c)
	})
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for seed := range uint64(8) {
		s := startServer(t, upstream, func() *forwarder {
			f := pausing(rand.New(rand.NewPCG(seed, 0)))
			f.long = seed%2 == 1
			return f
		}, func(cfg *ServerConfig) {
			cfg.Announcer = announcerFunc(func(context.Context, tokens.Session, tokens.List) ([]tokens.Mark, *tokens.Error) {
				return nil, nil
			})
		})
		c := login(t, s.addr)
		rnd := rand.New(rand.NewPCG(seed, 1))
		var sent []byte
		go func() {
			for range rounds {
				b := bytes.Repeat([]byte{byte('0' + rnd.IntN(10))}, 1+rnd.IntN(2000))
				sent = append(sent, b...)
				if _, err := c.Write(b); err != nil {
					return
				}
			}
			c.CloseWrite()
		}()
		got, err := io.ReadAll(c)
		if err != nil {
			t.Fatalf("seed %d: after %d bytes: %v", seed, len(got), err)
		}
		got = bytes.ReplaceAll(got, []byte("a"), nil)
		if !bytes.Equal(got, sent) {
			t.Fatalf("seed %d: %d bytes came back of %d, or in another order", seed, len(got), len(sent))
		}
	}
}
