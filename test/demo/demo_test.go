package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	workerMain()
	code := m.Run()
	proxytest.Cleanup()
	os.Exit(code)
}

// The demo tells what happens: with the proxy the write is refused, without it the money is lost, and show fails when
// it goes otherwise. Standard input of a test is no terminal, so it ends by itself.
func TestDemoPlaysBothActsAndEnds(t *testing.T) {
	for _, lock := range []string{"etcd", "postgres"} {
		t.Run(lock, func(t *testing.T) {
			var out bytes.Buffer
			if err := show(context.Background(), &out, lock); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			for _, part := range []string{"ZF001", "nothing was lost", "70 is lost", "is lost: expired", "psql 'postgres://app@", "run --lock billing --backend '" + lock} {
				if !strings.Contains(out.String(), part) {
					t.Errorf("nothing of %q in:\n%s", part, out.String())
				}
			}
		})
	}
}

func TestUnknownLock(t *testing.T) {
	if err := show(context.Background(), &bytes.Buffer{}, "zookeeper"); err == nil || !strings.Contains(err.Error(), "etcd or postgres") {
		t.Error(err)
	}
}
