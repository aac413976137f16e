package relay

import "github.com/fenceproxy/fenceproxy/tokens"

// Effect is what the driver has to do beside writing bytes.
type Effect uint8

const (
	EffectNone Effect = iota
	// EffectWait: feed no more client bytes until an Output carries EffectResume.
	EffectWait
	// EffectAnnounce: as EffectWait; also let the session's Judge settle, and raise Output.Announce, if there is one, for
	// Output.Session and call Engine.Announced with the result.
	EffectAnnounce
	// EffectResume: feed client bytes again, first those that FromClient left unconsumed.
	EffectResume
)

// Segments are byte slices to be written in order. They alias the engine's input or its memory and are valid until the
// next call of the engine in the same direction.
type Segments struct{ List [][]byte }

// Len is the number of bytes.
func (s *Segments) Len() int {
	n := 0
	for _, b := range s.List {
		n += len(b)
	}
	return n
}

func (s *Segments) add(b []byte) {
	if len(b) > 0 {
		s.List = append(s.List, b)
	}
}

func (s *Segments) reset() {
	clear(s.List) // let go of buffers that the driver recycles
	s.List = s.List[:0]
}

// Output is what one call of the engine asks of its driver: first the bytes, then the effect.
type Output struct {
	ToServer Segments
	ToClient Segments
	Effect   Effect
	// Announce and Session belong to EffectAnnounce.
	Announce tokens.List
	Session  tokens.Session
	// Close: write everything out, then end both legs.
	Close bool
}

// Reset empties o for the next call and keeps its memory.
func (o *Output) Reset() {
	o.ToServer.reset()
	o.ToClient.reset()
	o.Effect, o.Announce, o.Session, o.Close = EffectNone, nil, tokens.Session{}, false
}
