package pgtest

import (
	"os"
	"sync"
	"testing"
)

var shared struct {
	sync.Mutex
	cluster *Cluster
	err     error
}

// Shared is the one cluster of this test binary, started at first use. It allows prepared transactions and logical
// decoding. Tests take databases of their own and must not stop it. The binary's TestMain calls Main.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.err = New(WithSetting("max_prepared_transactions", "20"), WithSetting("wal_level", "logical"))
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// Main runs a binary's tests, then the given functions, and stops the shared cluster. It does not return.
func Main(m *testing.M, after ...func()) {
	code := m.Run()
	for _, f := range after {
		f()
	}
	shared.Lock()
	if shared.cluster != nil {
		shared.cluster.Close()
	}
	os.Exit(code)
}
