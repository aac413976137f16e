package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// sorted classes an error of the client: the caller's own context, a cluster that could not answer, or for good.
func sorted(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, lockclient.ErrUnavailable), passing(err):
		return fmt.Errorf("%w: %w", lockclient.ErrUnavailable, err)
	}
	return err
}

// passing reports whether the same request may succeed later. A proposal that was dropped or timed out may even have been
// carried out.
func passing(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errUnclear) {
		return true
	}
	code := codes.Unknown
	var e rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &e) {
		code = e.Code()
	} else if s, ok := status.FromError(err); ok {
		code = s.Code()
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Internal, codes.ResourceExhausted:
		return !errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace)
	case codes.Canceled: // by the connection's end, for ctx has not ended
		return true
	}
	return clientv3.IsConnCanceled(err)
}

// errUnclear is an answer that proves nothing.
var errUnclear = errors.New("etcd gave no clear answer")
