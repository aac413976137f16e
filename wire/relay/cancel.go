package relay

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/wire"
)

// cancelTime bounds one CancelRequest from its arrival to the server's end of stream.
const cancelTime = 10 * time.Second

// relayCancel sends a CancelRequest to the server as it came: the key in it is the server's own, of whatever length. The
// client is kept until the server has closed, which tells it that the request was acted upon (fe-cancel.c waits for it).
// The way to the server is as safe as that of a session (fe-cancel.c PQcancelStart).
func (s *Server) relayCancel(client *clientLeg, request wire.Startup) {
	relayed := false
	defer func() { s.events.Canceled(relayed) }()
	if !s.cancels.enter() {
		s.log.Warn("cancel request dropped: too many at a time", zap.String("remote", remoteName(client.raw)))
		return
	}
	defer s.cancels.leave()
	ctx, done := context.WithTimeout(s.ctx, cancelTime)
	defer done()
	// Nobody has kept in mind where the session is. Other servers do not know its key.
	var work sync.WaitGroup
	var reached atomic.Bool
	for _, at := range s.cfg.Upstream.all() {
		work.Go(func() {
			if err := s.sendCancel(ctx, at, request); err != nil {
				s.log.Warn("cancel request lost", zap.String("upstream", at.Address), zap.Error(err))
				return
			}
			reached.Store(true)
		})
	}
	work.Wait()
	relayed = reached.Load()
}

// sendCancel returns when the server has closed.
func (s *Server) sendCancel(ctx context.Context, at Address, request wire.Startup) error {
	server, err := s.cfg.Upstream.dialOne(ctx, at, s.cfg.Upstream.begins())
	if err != nil {
		return err
	}
	defer server.Close()
	deadline, _ := ctx.Deadline()
	server.SetDeadline(deadline)
	if _, err := server.Write(request.Raw); err != nil {
		return err
	}
	io.Copy(io.Discard, io.LimitReader(server, bufferSize))
	return nil
}
