package relay

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// What FuzzEngine does next, in the upper bits of a byte; the lower ones are a length, and that many bytes follow.
const (
	fuzzClientBytes   = iota << 5 // anything
	fuzzClientMessage             // a message type, then its body
	fuzzServerBytes
	fuzzServerMessage
	fuzzAnnounced // the raise is acknowledged, or refused when the length is odd
)

// FuzzEngine throws anything at the engine from both sides, well framed or not, in any order. It may end the session; it must
// not panic, take bytes that it was not given, stand still without saying why, or send much more than it was sent.
func FuzzEngine(f *testing.F) {
	f.Add([]byte{})
	update := frontend(nil, "Q UPDATE acct SET bal = 1")
	f.Add(fuzzSteps(fuzzClientBytes, string(update), fuzzServerBytes, string(backend("C UPDATE 1"))+string(backend("Z I"))))
	f.Add(fuzzSteps(fuzzClientMessage, "P\x00UPDATE acct SET a = 1\x00\x00\x00", fuzzClientMessage, "B\x00\x00\x00\x00\x00\x00\x00\x00",
		fuzzClientMessage, "E\x00\x00\x00\x00\x00", fuzzClientMessage, "S", fuzzServerMessage, "1", fuzzServerMessage, "2", fuzzServerMessage, "ZI"))
	f.Add(fuzzSteps(fuzzClientMessage, "QSET fence.token = 35\x00", fuzzAnnounced, "", fuzzServerMessage, "CSET\x00", fuzzServerMessage, "ZI"))
	f.Add(fuzzSteps(fuzzClientMessage, "QSET fence.token = 35\x00", fuzzAnnounced, "x", fuzzServerMessage, "ZI"))
	f.Add(fuzzSteps(fuzzClientMessage, "QCOPY acct FROM STDIN\x00", fuzzServerMessage, "G\x00\x00\x00", fuzzClientMessage, "d1\n", fuzzClientMessage, "c",
		fuzzServerMessage, "CCOPY 1\x00", fuzzServerMessage, "ZI"))
	f.Add(fuzzSteps(fuzzClientMessage, "F\x00\x00\x03\xb8\x00\x00\x00\x00\x00\x00", fuzzServerMessage, "V\xff\xff\xff\xff", fuzzServerMessage, "ZI"))
	f.Add(fuzzSteps(fuzzClientMessage, "QDO 'x'\x00", fuzzServerMessage, "SSERROR\x00C42601\x00\x00", fuzzServerMessage, "Sclient_encoding\x00SJIS\x00"))
	f.Add(fuzzSteps(fuzzClientBytes, "Q\x7f\xff\xff\xff", fuzzServerBytes, "T\xff\xff\xff\xff"))
	cfg := testConfig(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		c := newTalk(t, cfg, []string{"34", ""}[len(steps)%2])
		var waiting []byte // of the client, while the engine wants none
		paused, announcing := false, false
		given, sent := 0, 0
		noteOutput := func() (ended bool) {
			sent += c.out.ToServer.Len() + c.out.ToClient.Len()
			switch c.out.Effect {
			case EffectWait:
				paused = true
			case EffectAnnounce:
				paused, announcing = true, true
			case EffectResume:
				paused, announcing = false, false
			}
			return c.out.Close
		}
		feedClient := func() (ended bool) {
			for len(waiting) > 0 && !paused {
				c.out.Reset()
				n, err := c.e.FromClient(waiting, &c.out)
				if n < 0 || n > len(waiting) {
					t.Fatalf("took %d of %d bytes", n, len(waiting))
				}
				waiting = waiting[n:]
				if noteOutput() || err != nil {
					return true
				}
				if n == 0 && !paused {
					t.Fatal("takes nothing and does not say why")
				}
			}
			return false
		}
		for len(steps) > 0 {
			what, size := steps[0]&0xe0, min(int(steps[0]&0x1f), len(steps)-1)
			data := steps[1 : 1+size]
			steps = steps[1+size:]
			if (what == fuzzClientMessage || what == fuzzServerMessage) && size > 0 {
				data = fuzzFrame(data)
			}
			given += len(data)
			switch what {
			case fuzzClientBytes, fuzzClientMessage:
				waiting = append(waiting, data...)
			case fuzzServerBytes, fuzzServerMessage:
				c.out.Reset()
				if err := c.e.FromServer(data, &c.out); noteOutput() || err != nil {
					return
				}
			case fuzzAnnounced:
				if !announcing {
					continue
				}
				announcing = false
				c.out.Reset()
				if size%2 == 1 {
					c.e.Announced(nil, &tokens.Error{Code: tokens.CodeStale, Message: "stale"}, &c.out)
				} else {
					c.e.Announced([]tokens.Mark{{ID: 5, Name: "billing", Token: mustToken("35")}}, nil, &c.out)
				}
				if noteOutput() {
					return
				}
			}
			if feedClient() {
				return
			}
			// The longest thing that one byte can lead to is a guard.
			if limit := 4096 + 2048*given; sent > limit {
				t.Fatalf("%d bytes in, %d bytes out", given, sent)
			}
		}
	})
}

// fuzzFrame makes a message of its type and body.
func fuzzFrame(data []byte) []byte {
	n := len(data) + 3
	return append([]byte{data[0], byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, data[1:]...)
}

// fuzzSteps writes seeds: pairs of what and data. Data longer than a step's are cut into several.
func fuzzSteps(pairs ...any) (steps []byte) {
	for i := 0; i < len(pairs); i += 2 {
		what, data := byte(pairs[i].(int)), pairs[i+1].(string)
		if what == fuzzClientMessage || what == fuzzServerMessage {
			if len(data) > 31 { // too long for one: bytes do as well
				what, data = what&^0x20, string(fuzzFrame([]byte(data)))
			}
		}
		for first := true; first || len(data) > 0; first = false {
			n := min(len(data), 31)
			steps = append(append(steps, what|byte(n)), data[:n]...)
			data = data[n:]
		}
	}
	return steps
}
