package etcd_test

import (
	"context"
	"fmt"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd"
)

func Example() {
	ctx := context.Background()
	locks, err := lockclient.Open(ctx, "etcd://etcd1,etcd2,etcd3/myapp?ttl=5s&grace=1s")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(ctx, "billing", func(ctx context.Context, l *lockclient.Lease) error {
		fmt.Println(l.Fence())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A program that has an etcd client already.
func ExampleNew() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://etcd1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	backend, err := etcd.New(context.Background(), client, "myapp")
	if err != nil {
		log.Fatal(err)
	}
	locks := lockclient.New(backend)
	_ = locks
}
