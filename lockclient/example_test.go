package lockclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

func Example() {
	// With a real service: lockclient.Open(ctx, "etcd://host1,host2,host3/myapp?ttl=5s"), after importing its package.
	client := lockclient.New(memory.NewServer(1).Connect(), lockclient.WithTTL(5*time.Second), lockclient.WithGrace(time.Second))
	defer client.Close()

	err := client.Do(context.Background(), "billing", func(ctx context.Context, l *lockclient.Lease) error {
		fmt.Println("fence.token =", l.Fence())
		return l.Check() // nil: still ours
	})
	fmt.Println(err)
	// Output:
	// fence.token = billing=1
	// <nil>
}

func ExampleClient_TryLock() {
	server := memory.NewServer(1)
	ctx := context.Background()
	first := lockclient.New(server.Connect(), lockclient.WithHolder("first"))
	second := lockclient.New(server.Connect(), lockclient.WithHolder("second"))

	lease, err := first.TryLock(ctx, "billing")
	if err != nil {
		log.Fatal(err)
	}
	var held *lockclient.HeldError
	if _, err = second.TryLock(ctx, "billing"); errors.As(err, &held) {
		fmt.Println("held by", held.Holder)
	}
	fmt.Println(lease.Release(ctx))
	// Output:
	// held by first
	// <nil>
}

// A leader works until its context ends, and stands again when it has lost the lock.
func ExampleClient_Campaign() {
	client := lockclient.New(memory.NewServer(1).Connect())
	term := 0
	err := client.Campaign(context.Background(), "leader", func(ctx context.Context, l *lockclient.Lease) error {
		term++
		fmt.Println("term", term, "token", l.Fence().Token)
		if term == 1 {
			l.MarkLost(errors.New("the database answered ZF001"))
			<-ctx.Done()
			return ctx.Err()
		}
		return nil // the work is done
	})
	fmt.Println(err)
	// Output:
	// term 1 token 1
	// term 2 token 2
	// <nil>
}

func ExampleClient_Observe() {
	client := lockclient.New(memory.NewServer(1).Connect(), lockclient.WithHolder("me"))
	lease, err := client.Lock(context.Background(), "leader")
	if err != nil {
		log.Fatal(err)
	}
	for leader, err := range client.Observe(context.Background(), "leader") {
		switch {
		case err != nil:
			fmt.Println("cannot see:", err) // it goes on by itself
			continue
		case leader.Vacant():
			fmt.Println("vacant")
			return
		}
		fmt.Println(leader.Holder, leader.Token)
		lease.Release(context.Background())
	}
	// Output:
	// me 1
	// vacant
}

// Work that cannot be given a context looks at the clock, and is told in time to stop.
func ExampleLease_Check() {
	client := lockclient.New(memory.NewServer(1).Connect(), lockclient.WithGrace(2*time.Second))
	lease, err := client.Lock(context.Background(), "billing")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())
	for batch := range 3 {
		if err := lease.Check(); err != nil {
			fmt.Println("stop:", err)
			return
		}
		fmt.Println("batch", batch)
	}
	// Output:
	// batch 0
	// batch 1
	// batch 2
}
