package relay

import (
	"context"
	"io"
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
	server, err := s.dial(ctx, s.cfg.Upstream.begins())
	if err != nil {
		s.log.Warn("cancel request lost: cannot connect to upstream", zap.Error(err))
		return
	}
	defer server.Close()
	deadline, _ := ctx.Deadline()
	server.SetDeadline(deadline)
	if _, err := server.Write(request.Raw); err != nil {
		s.log.Warn("cancel request lost", zap.Error(err))
		return
	}
	relayed = true
	io.Copy(io.Discard, io.LimitReader(server, bufferSize))
}
