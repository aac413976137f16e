package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/lockclient"
	_ "github.com/fenceproxy/fenceproxy/lockclient/etcd"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	_ "github.com/fenceproxy/fenceproxy/lockclient/postgres"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

var background = context.Background()

// The services that are compared.
const (
	ours     = "etcd"
	mutex    = "etcd Mutex"
	lease    = "lease table"
	advisory = "advisory"
)

var services = []string{ours, mutex, lease, advisory}

// servers are one etcd and one PostgreSQL, both with their data on disk.
type servers struct {
	etcd    *etcdtest.Alone
	cluster *pgtest.Cluster
}

func newServers(p plan) (w *servers, err error) {
	w = &servers{}
	if w.etcd, err = etcdtest.RunAlone(etcdtest.Durable); err != nil {
		return w, err
	}
	// An advisory lock takes a connection for each who waits.
	most := strconv.Itoa(slices.Max(p.contenders) + 300)
	if w.cluster, err = pgtest.New(pgtest.WithFsync(), pgtest.WithSetting("max_connections", most)); err != nil {
		return w, err
	}
	binary, err := proxytest.Build()
	if err != nil {
		return w, err
	}
	defer proxytest.Cleanup()
	if out, err := exec.Command(binary, "init", "--dsn", w.dsn()).CombinedOutput(); err != nil {
		return w, fmt.Errorf("fenceproxy init: %w\n%s", err, out)
	}
	return w, nil
}

func (w *servers) dsn() string { return w.cluster.DSN("postgres", "postgres") }

func (w *servers) close() {
	if w.etcd != nil {
		w.etcd.Close()
	}
	if w.cluster != nil {
		w.cluster.Close()
	}
}

// url is where a service is.
func (w *servers) url(service string) string {
	switch service {
	case ours:
		return "etcd://" + w.etcd.Host() + "/bench"
	case mutex:
		return w.etcd.Endpoint()
	case advisory:
		return w.dsn() + "&mode=advisory"
	}
	return w.dsn()
}

// locker takes locks of one service; close finishes what releases have left behind.
type locker struct {
	lock  func(ctx context.Context, name string, ttl time.Duration) (release func() error, err error)
	close func() error
}

// tenure is what is measured: acquire and release.
func (l locker) tenure(ctx context.Context, name string, ttl time.Duration) error {
	release, err := l.lock(ctx, name, ttl)
	if err != nil {
		return err
	}
	return release()
}

func open(service, url string) (locker, error) {
	if service == mutex {
		return openMutex(url)
	}
	client, err := lockclient.Open(background, url)
	if err != nil {
		return locker{}, err
	}
	return locker{func(ctx context.Context, name string, ttl time.Duration) (func() error, error) {
		l, err := client.Lock(ctx, name, lockclient.WithTTL(ttl))
		if err != nil {
			return nil, err
		}
		return func() error { return l.Release(background) }, nil
	}, client.Close}, nil
}

// openMutex is for etcd's own recipe, with a fresh lease each, as the lock client's has.
func openMutex(endpoint string) (locker, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return locker{}, err
	}
	return locker{func(ctx context.Context, name string, ttl time.Duration) (func() error, error) {
		s, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl/time.Second)))
		if err != nil {
			return nil, err
		}
		m := concurrency.NewMutex(s, "mutex/"+name)
		if err := m.Lock(ctx); err != nil {
			s.Close()
			return nil, err
		}
		return func() error {
			if err := m.Unlock(background); err != nil {
				return err
			}
			return s.Close()
		}, nil
	}, client.Close}, nil
}
