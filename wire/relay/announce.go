package relay

import (
	"context"
	"time"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// announce raises the tokens in a goroutine of its own and tells the engine. Both pumps go on meanwhile: the server's
// replies flow, and a client that closes is noticed.
func (s *pumps) announce(l tokens.List, about tokens.Session) {
	ctx, cancel := context.WithCancel(s.ctx)
	s.mu.Lock()
	s.announces = cancel
	if s.left {
		cancel()
	}
	s.mu.Unlock()
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer s.recovered()
		defer cancel()
		marks, err := s.raise(ctx, about, l)
		s.announced(marks, err)
	}()
}

func (s *session) raise(ctx context.Context, about tokens.Session, l tokens.List) ([]tokens.Mark, *tokens.Error) {
	if s.judge != nil { // for what a client has sent before it has gone, too: that is still carried out
		s.judge.Settle(s.ctx)
	}
	if len(l) == 0 { // it was for the judge
		return nil, nil
	}
	if s.announcer == nil {
		return nil, &tokens.Error{Code: tokens.CodeUnavailable, Message: "fence tokens cannot be announced",
			Detail: "The proxy has no control connection."}
	}
	return s.announcer.Announce(ctx, about, l)
}

// abandonAnnounce: nobody waits for the raise any more. It goes on without the session.
func (s *pumps) abandonAnnounce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left {
		time.AfterFunc(leftTime, s.abandonHeld)
	}
	s.left = true
	if s.announces != nil {
		s.announces()
	}
}

// abandonHeld: the client has gone, and the server does not answer what the engine waits for. What the client has sent
// behind that is not carried out any more.
func (s *pumps) abandonHeld() {
	s.mu.Lock()
	held := s.paused
	s.mu.Unlock()
	if held && s.ctx.Err() == nil {
		s.closed(EndClient)
		s.closeBoth()
	}
}

// announced tells the engine and writes what comes out.
func (s *pumps) announced(marks []tokens.Mark, err *tokens.Error) {
	var out Output
	_, speaks := s.fromAnnouncer(marks, err, &out)
	if speaks && !s.speak(new(writer), &out.ToClient) {
		return
	}
	switch {
	case out.Close:
		s.stop(&stop{reason: EndRejected})
	case out.Effect == EffectAnnounce:
		s.announce(out.Announce, out.Session)
	}
	s.wake()
}

func (s *pumps) fromAnnouncer(marks []tokens.Mark, err *tokens.Error, out *Output) (left, speaks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside {
		return false, false
	}
	s.inside = true
	s.engine.Announced(marks, err, out)
	s.inside = false
	out.ToClient.own() // the server pump goes on, and the engine's memory with it
	return s.take(out)
}
