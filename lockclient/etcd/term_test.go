package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

// A leader that was stopped while another was elected answers keep-alives for a moment when it wakes, in its old term.
// Such an answer opens no window, neither for a holder nor for a waiter whose turn comes.
func TestDeposedLeaderRenewsNothing(t *testing.T) {
	t.Parallel()
	client := etcdtest.Start(t, 1).Client()
	ctx := context.Background()
	b, err := New(ctx, client, "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	status, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	request := func() lockclient.Claim {
		c, err := b.Request(ctx, lockclient.Request{Name: "l", TTL: 20 * time.Second, Queue: true})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	holder, waiter := request(), request()
	fake, real := &streams{}, b.alive
	answer := func(c lockclient.Claim, term uint64) error {
		fake.opened, b.alive = nil, newKeepAlives(fake)
		defer func() { b.alive.end(); b.alive = real }()
		done := make(chan error, 1)
		go func() {
			_, err := b.Renew(ctx, c)
			done <- err
		}()
		for opened := 0; opened == 0; time.Sleep(time.Millisecond) {
			fake.mu.Lock()
			opened = len(fake.opened)
			fake.mu.Unlock()
		}
		id := int64(<-fake.opened[0].asked)
		fake.opened[0].answers <- &pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{RaftTerm: term}, ID: id, TTL: 20}
		return <-done
	}
	if err := answer(holder, status.RaftTerm); err != nil {
		t.Error(err)
	}
	if err := answer(holder, status.RaftTerm-1); !errors.Is(err, lockclient.ErrUnavailable) {
		t.Errorf("an answer of an old term: %v", err)
	}
	if err := answer(waiter, status.RaftTerm-1); err != nil {
		t.Error(err)
	}
	if err := b.Release(ctx, holder); err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	won, err := b.Wait(ctx, waiter)
	if err != nil || won.Since.Before(before) {
		t.Errorf("the waiter's window was not proved anew: since %v, %v", won.Since, err)
	}
	b.Release(ctx, won)
}
