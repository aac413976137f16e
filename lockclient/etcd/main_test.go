package etcd_test

import (
	"os"
	"testing"

	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	holderMain()
	os.Exit(m.Run())
}
