//go:build !linux

package relay

import (
	"errors"
	"net"
	"sync/atomic"
)

// eventLoop exists on Linux only; elsewhere goroutines drive the sessions.
type eventLoop struct{ sessions atomic.Int64 }

func newEventLoop() (*eventLoop, error) { return nil, errors.ErrUnsupported }

func (l *eventLoop) close() {}

func newLooped(*session, *eventLoop, net.Conn, net.Conn) runner { return nil }
