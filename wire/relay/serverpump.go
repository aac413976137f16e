package relay

import (
	"errors"
	"io"

	"github.com/fenceproxy/fenceproxy/wire"
)

var errPanicked = errors.New("engine panicked")

// serverPump is the goroutine that reads the server and writes to the client.
type serverPump struct {
	*pumps
	buf []byte
	out Output
	w   writer
}

func (s *pumps) serverPump() {
	defer s.work.Done()
	defer func() {
		close(s.gone)
		s.wake()
	}()
	defer s.recovered()
	mem := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(mem)
	p := serverPump{pumps: s, buf: mem[:]}
	for p.step() {
	}
}

func (p *serverPump) step() bool {
	n, err := p.server.Read(p.buf)
	if n > 0 && !p.feed(p.buf[:n]) {
		return false
	}
	if err == nil {
		return true
	}
	switch {
	case p.said.Load():
		p.closed(EndClient)
	case !errors.Is(err, io.EOF):
		p.closed(EndServerError)
	default:
		p.closed(EndServer)
	}
	return false
}

// feed hands bytes of the server to the engine and writes what comes out.
func (p *serverPump) feed(in []byte) bool {
	left, speaks, err := p.fromServer(in)
	if speaks && !p.speak(&p.w, &p.out.ToClient) {
		return false
	}
	p.quiet.Store(endsReady(in))
	switch {
	case err != nil:
		p.stop(&stop{reason: EndProtocol, urgent: true})
	case p.out.Close:
		p.stop(&stop{reason: EndRejected})
	case p.out.Effect == EffectAnnounce:
		p.announce(p.out.Announce, p.out.Session)
	}
	if left || p.draining.Load() {
		p.wake()
	}
	return err == nil
}

// fromServer calls the engine. left: there is something for the client pump. When speaks is true, clientMu is held and
// out.ToClient is to be written.
func (p *serverPump) fromServer(in []byte) (left, speaks bool, err error) {
	p.out.Reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inside {
		return false, false, errPanicked
	}
	p.inside = true
	err = p.engine.FromServer(in, &p.out)
	p.inside = false
	left, speaks = p.take(&p.out)
	return left, speaks, err
}

// take sorts what the engine made outside of the client pump. Called with mu held; see fromServer for the results.
func (s *pumps) take(out *Output) (left, speaks bool) {
	if len(out.ToServer.List) > 0 {
		s.pending = out.ToServer.appendTo(s.pending)
		left = true
	}
	switch out.Effect {
	case EffectResume:
		s.paused = false
		left = true
	case EffectWait, EffectAnnounce:
		s.paused = true
		left = true
	}
	return left, s.mayspeak(out)
}

// mayspeak takes clientMu when there is something to be written to the client, and reports whether it holds it.
func (s *pumps) mayspeak(out *Output) bool {
	if len(out.ToClient.List) == 0 {
		return false
	}
	s.clientMu.Lock()
	if s.muted {
		s.clientMu.Unlock()
		return false
	}
	return true
}

// speak writes to the client and gives clientMu back. When the client cannot be written to, the session is over.
func (s *pumps) speak(w *writer, segs *Segments) bool {
	n := segs.Len()
	err := w.write(s.client, segs)
	s.clientMu.Unlock()
	if err != nil {
		s.end(EndClientError)
		if s.stopping.Load() == nil { // else the client pump is about to end it
			s.closeBoth()
		}
		return false
	}
	s.toClient.Add(int64(n))
	s.rec.Bytes(0, n)
	return true
}

// endsReady reports whether b ends with a ReadyForQuery, or with data that looks like one.
func endsReady(b []byte) bool {
	const size = wire.HeaderLen + 1
	if len(b) < size {
		return false
	}
	b = b[len(b)-size:]
	return b[0] == wire.BackendReadyForQuery && b[1] == 0 && b[2] == 0 && b[3] == 0 && b[4] == size-1
}
