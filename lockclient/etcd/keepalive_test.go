package etcd

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// streams hands out keep-alive streams that a test answers by hand.
type streams struct {
	pb.LeaseClient
	mu     sync.Mutex
	opened []*manual
}

type manual struct {
	pb.Lease_LeaseKeepAliveClient
	ctx     context.Context
	asked   chan clientv3.LeaseID
	answers chan *pb.LeaseKeepAliveResponse
}

func (s *streams) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	m := &manual{ctx: ctx, asked: make(chan clientv3.LeaseID, 8), answers: make(chan *pb.LeaseKeepAliveResponse, 8)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, m)
	return m, nil
}

func (m *manual) Send(r *pb.LeaseKeepAliveRequest) error {
	m.asked <- clientv3.LeaseID(r.ID)
	return nil
}

func (m *manual) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case r, open := <-m.answers:
		if !open {
			return nil, io.EOF
		}
		return r, nil
	case <-m.ctx.Done():
		return nil, m.ctx.Err()
	}
}

func (m *manual) answer(id int64) { m.answers <- &pb.LeaseKeepAliveResponse{ID: id, TTL: 5} }

// The answer to an earlier request is never taken for the answer to a later one: the window would count from the later
// one's sending, while the server counts from the earlier.
func TestLateKeepAliveAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{}
		k := newKeepAlives(s)
		defer k.end()
		ask := func(ctx context.Context, id clientv3.LeaseID) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, _, err := k.once(ctx, id)
				done <- err
			}()
			synctest.Wait()
			return done
		}
		background := context.Background()

		ctx, cancel := context.WithCancel(background)
		first := ask(ctx, 1)
		cancel()
		if err := <-first; err != context.Canceled {
			t.Fatal(err)
		}
		second := ask(background, 1)
		if len(s.opened) != 2 {
			t.Fatalf("%d streams", len(s.opened))
		}
		s.opened[0].answer(1) // late
		synctest.Wait()
		select {
		case err := <-second:
			t.Fatalf("the late answer was taken: %v", err)
		default:
		}
		s.opened[1].answer(1)
		if err := <-second; err != nil {
			t.Error(err)
		}

		// Leases share a stream; one that does not answer in time is left.
		short, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		a, b := ask(short, 1), ask(background, 2)
		if len(s.opened) != 2 || len(s.opened[1].asked) != 3 {
			t.Fatalf("%d streams, %d requests", len(s.opened), len(s.opened[1].asked))
		}
		if err := <-a; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		c := ask(background, 3)
		if len(s.opened) != 3 {
			t.Fatalf("%d streams", len(s.opened))
		}
		s.opened[1].answer(2) // its last debt
		if err := <-b; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s.opened[1].ctx.Err() == nil {
			t.Error("a stream that nobody waits for is left open")
		}
		close(s.opened[2].answers)
		if err := <-c; !errors.Is(err, errUnclear) {
			t.Error(err)
		}
		if d := ask(background, 3); len(s.opened) != 4 {
			t.Errorf("%d streams", len(s.opened))
		} else {
			s.opened[3].answer(3)
			if err := <-d; err != nil {
				t.Error(err)
			}
		}
	})
}
