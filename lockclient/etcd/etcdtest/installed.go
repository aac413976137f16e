package etcdtest

import (
	"os/exec"
	"testing"
)

// Installed runs the etcd of the system (Debian: etcd-server 3.4.23), one member, until the test ends, and returns its
// endpoint. Without one the test is skipped.
func Installed(tb testing.TB) (endpoint string) {
	tb.Helper()
	binary, err := exec.LookPath("etcd")
	if err != nil {
		tb.Skip("no etcd is installed: apt-get install etcd-server")
	}
	endpoint, peer := "http://"+freeAddress(tb), "http://"+freeAddress(tb)
	p := exec.Command(binary, "--name", "m", "--data-dir", tb.TempDir(), "--logger", "zap", "--log-outputs", "/dev/null",
		"--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync",
		"--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "m="+peer)
	if err := p.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Process.Kill()
		p.Wait()
	})
	waitReady(tb, Dial(tb, endpoint))
	return endpoint
}
