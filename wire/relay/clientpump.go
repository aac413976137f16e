package relay

import (
	"errors"
	"io"
	"time"

	"github.com/fenceproxy/fenceproxy/wire"
)

// clientPump is the goroutine that reads the client and writes to the server.
type clientPump struct {
	*pumps
	buf        []byte
	start, end int  // bytes read and not consumed yet
	held       bool // the engine has asked to wait; what is read meanwhile stays in buf
	eof        bool // the client has closed its side
	out        Output
	w          writer
}

func (s *pumps) clientPump() {
	defer s.recovered()
	mem := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(mem)
	p := clientPump{pumps: s, buf: mem[:]}
	for p.step() {
	}
}

// step does one thing and returns whether there is more to do.
func (p *clientPump) step() bool {
	if p.mail.Load() {
		if !p.readMail() {
			return false
		}
	}
	switch {
	case !p.held && p.start < p.end:
		return p.feed()
	case !p.held && p.eof:
		// As PostgreSQL does for a client that has shut down its side: what it sent is still carried out and answered.
		p.closed(EndClient)
		closeWrite(p.server)
		p.drop()
		return false
	case p.eof || !p.room():
		select {
		case <-p.bell:
		case <-p.gone:
			p.mail.Store(true)
		}
		return true
	}
	return p.read()
}

// room makes space behind the unconsumed bytes.
func (p *clientPump) room() bool {
	if p.start == p.end {
		p.start, p.end = 0, 0
	} else if p.end == len(p.buf) && p.start > 0 {
		p.end = copy(p.buf, p.buf[p.start:p.end])
		p.start = 0
	}
	return p.end < len(p.buf)
}

// read waits for the client, also while the engine has asked to wait: a client that goes away meanwhile must be noticed.
func (p *clientPump) read() bool {
	n, err := p.client.Read(p.buf[p.end:])
	p.end += n
	switch {
	case err == nil:
		return true
	case isTimeout(err): // somebody rang; the deadline is taken back before the mail is looked at
		p.client.SetReadDeadline(time.Time{})
		return true
	case errors.Is(err, io.EOF):
		p.eof = true
		p.abandonAnnounce()
		return true
	}
	p.closed(EndClientError)
	p.closeBoth()
	return false
}

// feed hands the unconsumed bytes to the engine and writes what comes out.
func (p *clientPump) feed() bool {
	n, speaks, err := p.fromClient(p.buf[p.start:p.end])
	if speaks && !p.speak(&p.w, &p.out.ToClient) {
		return false
	}
	// A message may be cut anywhere, so this misses some Terminates: then the end of stream says the same.
	if n == wire.HeaderLen && p.buf[p.start] == wire.FrontendTerminate {
		p.said.Store(true)
	}
	p.start += n
	if !p.send(&p.out.ToServer) {
		return false
	}
	switch {
	case err != nil:
		p.stop(&stop{reason: EndProtocol, words: protocolWords(err, speaks), urgent: true})
	case p.out.Close:
		p.stop(&stop{reason: EndRejected})
	case p.out.Effect == EffectAnnounce:
		p.announce(p.out.Announce, p.out.Session)
	}
	return true
}

// fromClient calls the engine. When speaks is true, clientMu is held and out.ToClient is to be written.
func (p *clientPump) fromClient(in []byte) (n int, speaks bool, err error) {
	p.out.Reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inside {
		return 0, false, errPanicked
	}
	p.inside = true
	n, err = p.engine.FromClient(in, &p.out)
	p.inside = false
	if p.out.Effect == EffectWait || p.out.Effect == EffectAnnounce {
		p.held, p.paused = true, true
		// While the client is paused the engine may work on its messages in calls of the other pump and use its memory
		// again, so what it made up to here is copied before it can.
		p.out.ToServer.own()
	}
	return n, p.mayspeak(&p.out), err
}

// own replaces the segments by one copy of them.
func (s *Segments) own() {
	if len(s.List) > 0 {
		b := s.appendTo(nil)
		s.List = append(s.List[:0], b)
	}
}

// send writes to the server. When that fails the server has gone away, perhaps with last words that the server pump is
// still to deliver, so the session ends when that has.
func (p *clientPump) send(segs *Segments) bool {
	if len(segs.List) == 0 {
		return true
	}
	n := segs.Len()
	if err := p.w.write(p.server, segs); err != nil {
		p.drop()
		return false
	}
	p.toServer.Add(int64(n))
	p.rec.Bytes(n, 0)
	return true
}

// readMail does what others have left for the client pump.
func (p *clientPump) readMail() bool {
	p.mail.Store(false)
	p.mu.Lock()
	pending, paused := p.pending, p.paused
	p.pending = nil
	idle := p.draining.Load() && !paused && p.start == p.end && !p.inside && !p.engine.InTransaction()
	p.mu.Unlock()
	if len(pending) > 0 && !p.send(&Segments{List: [][]byte{pending}}) {
		return false
	}
	p.held = paused
	if idle {
		p.stop(&stop{reason: EndDrained, words: shuttingDown})
	}
	if st := p.stopping.Load(); st != nil {
		p.finish(st)
		return false
	}
	select {
	case <-p.gone: // all that the server had to say was written
		linger(p.client, p.buf)
		return false
	default:
		return true
	}
}

// finish says the last words and ends the server's session.
func (p *clientPump) finish(st *stop) {
	p.clientMu.Lock()
	if st.words != nil && !p.muted {
		p.client.SetWriteDeadline(time.Now().Add(lingerTime))
		p.client.Write(wire.AppendError(nil, st.words))
	}
	p.muted = true
	p.clientMu.Unlock()
	if st.urgent {
		p.server.Close()
	} else {
		p.server.SetWriteDeadline(time.Now().Add(lingerTime))
		p.server.Write(terminate)
		closeWrite(p.server)
	}
	linger(p.client, p.buf)
}

// protocolWords are for a client whose bytes are no messages, unless the engine has told it.
func protocolWords(err error, told bool) *wire.Error {
	switch {
	case told:
		return nil
	case errors.Is(err, errFrame):
		return fatalError("08P01", "invalid message length", "")
	}
	return fatalError("08P01", "invalid message format", "")
}

var terminate = []byte{wire.FrontendTerminate, 0, 0, 0, 4}

// drop waits for the end of the server pump. What the client still sends is read, so that it is not stuck, and dropped.
func (p *clientPump) drop() {
	for {
		select {
		case <-p.gone:
			linger(p.client, p.buf)
			return
		default:
		}
		if p.eof {
			select {
			case <-p.gone:
			case <-p.bell:
			}
			if p.stopping.Load() != nil {
				p.closeBoth()
			}
			continue
		}
		_, err := p.client.Read(p.buf)
		switch {
		case err == nil:
		case isTimeout(err):
			p.client.SetReadDeadline(time.Time{})
			if p.stopping.Load() != nil {
				p.closeBoth()
			}
		default:
			p.eof = true
		}
	}
}
