package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keepAlives sends keep-alives of all leases over one stream, because opening one may cost the server a password check.
// Not the client's own KeepAlive, which tells neither when a request was sent nor that it failed, nor KeepAliveOnce, which
// opens a stream each time and repeats a failed request without a pause while the cluster is away.
//
// A stream that owes a lease an answer is not asked again: the next request opens another one, to another member if there
// is one.
type keepAlives struct {
	client pb.LeaseClient
	ctx    context.Context // ends all streams
	end    context.CancelFunc

	mu     sync.Mutex
	stream *keepAliveStream
}

func newKeepAlives(client pb.LeaseClient) *keepAlives {
	k := &keepAlives{client: client}
	k.ctx, k.end = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	return k
}

type keepAliveStream struct {
	ready  chan struct{} // closed when grpc is set or err is
	cancel context.CancelFunc
	grpc   pb.Lease_LeaseKeepAliveClient
	send   sync.Mutex

	mu      sync.Mutex
	owed    map[clientv3.LeaseID]chan keepAliveAnswer // nil: nobody waits for the answer, but it may come
	live    int                                       // those that somebody waits for
	retired bool                                      // takes no more requests, and ends when nobody waits
	err     error                                     // the stream has ended
}

type keepAliveAnswer struct {
	ttl  time.Duration
	term uint64 // of the member that answered
	err  error
}

// once sends one keep-alive and waits for its answer. rpctypes.ErrLeaseNotFound when the server does not know the lease.
func (k *keepAlives) once(ctx context.Context, id clientv3.LeaseID) (ttl time.Duration, term uint64, err error) {
	s, answer := k.book(id)
	select {
	case <-s.ready:
		s.request(id)
	case <-ctx.Done():
	}
	select {
	case a := <-answer:
		return a.ttl, a.term, a.err
	case <-ctx.Done():
		s.forget(id, errors.Is(ctx.Err(), context.DeadlineExceeded))
		return 0, 0, ctx.Err()
	}
}

// book finds or opens a stream that owes id nothing, and notes that it will.
func (k *keepAlives) book(id clientv3.LeaseID) (*keepAliveStream, <-chan keepAliveAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	answer := make(chan keepAliveAnswer, 1)
	if k.stream != nil && k.stream.owe(id, answer) {
		return k.stream, answer
	}
	if k.stream != nil {
		k.stream.retire()
	}
	ctx, cancel := context.WithCancel(k.ctx)
	k.stream = &keepAliveStream{ready: make(chan struct{}), cancel: cancel, owed: map[clientv3.LeaseID]chan keepAliveAnswer{id: answer}, live: 1}
	go k.stream.run(ctx, k.client)
	return k.stream, answer
}

func (s *keepAliveStream) owe(id clientv3.LeaseID, answer chan keepAliveAnswer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waits := s.owed[id]; waits || s.retired || s.err != nil {
		return false
	}
	s.owed[id] = answer
	s.live++
	return true
}

func (s *keepAliveStream) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	s.endIfIdle()
}

func (s *keepAliveStream) endIfIdle() {
	if s.retired && s.live == 0 {
		s.cancel()
	}
}

// forget gives up waiting. Its answer may still come, and must not be taken for the answer to a later request, whose
// window would count from too late: until then this stream is not asked for id again. After a timeout it is not asked
// for anything.
func (s *keepAliveStream) forget(id clientv3.LeaseID, timeout bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owed[id] != nil {
		s.owed[id] = nil
		s.live--
	}
	s.retired = s.retired || timeout
	s.endIfIdle()
}

// request sends. A failure is in what run receives.
func (s *keepAliveStream) request(id clientv3.LeaseID) {
	if s.grpc == nil {
		return
	}
	s.send.Lock()
	defer s.send.Unlock()
	s.grpc.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
}

func (s *keepAliveStream) run(ctx context.Context, client pb.LeaseClient) {
	defer s.cancel()
	stream, err := client.LeaseKeepAlive(ctx)
	if err == nil {
		s.grpc = stream
	}
	close(s.ready)
	for err == nil {
		var resp *pb.LeaseKeepAliveResponse
		if resp, err = stream.Recv(); err == nil {
			s.answer(resp)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = rpctypes.Error(err)
	for _, answer := range s.owed {
		if answer != nil {
			answer <- keepAliveAnswer{err: errors.Join(errUnclear, s.err)}
		}
	}
	s.owed = nil
}

func (s *keepAliveStream) answer(resp *pb.LeaseKeepAliveResponse) {
	a := keepAliveAnswer{ttl: time.Duration(resp.TTL) * time.Second, term: resp.GetHeader().GetRaftTerm()}
	if resp.TTL <= 0 {
		a.err = rpctypes.ErrLeaseNotFound
	}
	id := clientv3.LeaseID(resp.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.owed[id]; answer != nil {
		answer <- a
		s.live--
	}
	delete(s.owed, id)
	s.endIfIdle()
}
