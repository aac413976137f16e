package etcdtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/test/freeport"
)

// Cluster is a running etcd 3.7.
type Cluster struct {
	tb      testing.TB
	members []*member
	network *network
	secure  *Certificates // nil: plain connections
}

type member struct {
	config  memberConfig
	proxy   string // all that the member sends to its peers goes through it
	process *exec.Cmd
}

// Start runs a cluster of n members until the test ends. TestMain must call Main. The election timeout is 500 ms, so
// that a TTL of 1 s is granted as asked.
func Start(tb testing.TB, n int) *Cluster {
	tb.Helper()
	return startCluster(tb, n, nil, false)
}

// StartTLS is Start for a cluster that clients reach by TLS only; mutual: with a certificate of their own only.
func StartTLS(tb testing.TB, n int, secure *Certificates, mutual bool) *Cluster {
	tb.Helper()
	return startCluster(tb, n, secure, mutual)
}

func startCluster(tb testing.TB, n int, secure *Certificates, mutual bool) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, network: newNetwork(tb, n), secure: secure}
	var names []string
	dir := tb.TempDir()
	for i := range n {
		m := &member{config: memberConfig{Name: fmt.Sprintf("m%d", i), Dir: filepath.Join(dir, fmt.Sprint(i)), Client: "http://" + freeAddress(tb), Limit: time.Hour}}
		if secure != nil {
			m.config.Client = strings.Replace(m.config.Client, "http:", "https:", 1)
			m.config.Cert, m.config.Key, m.config.CA, m.config.Mutual = secure.ServerCert, secure.ServerKey, secure.CA, mutual
		}
		peer := freeAddress(tb)
		m.config.Peer, m.config.AdvertisePeer = "http://"+peer, "http://"+peer
		if n > 1 { // a name that only the proxies know; addresses of the loopback would bypass them
			_, port, _ := net.SplitHostPort(peer)
			m.config.AdvertisePeer = "http://" + c.network.name(i) + ":" + port
			m.proxy = c.network.proxy(i)
		}
		names = append(names, m.config.Name+"="+m.config.AdvertisePeer)
		c.members = append(c.members, m)
	}
	for i, m := range c.members {
		m.config.Cluster = strings.Join(names, ",")
		c.start(i)
	}
	tb.Cleanup(func() {
		for i := range c.members {
			c.Kill(i)
		}
	})
	for i := range c.members {
		c.WaitReady(i)
	}
	return c
}

func (c *Cluster) start(i int) {
	c.tb.Helper()
	m := c.members[i]
	text, err := json.Marshal(m.config)
	if err != nil {
		c.tb.Fatal(err)
	}
	m.process = exec.Command(os.Args[0])
	m.process.Env = append(os.Environ(), memberVar+"="+string(text), "HTTP_PROXY="+m.proxy, "GOMAXPROCS=2")
	m.process.Stderr = os.Stderr
	if err := m.process.Start(); err != nil {
		c.tb.Fatal(err)
	}
}

// Kill ends member i with SIGKILL.
func (c *Cluster) Kill(i int) {
	if m := c.members[i]; m.process != nil {
		m.process.Process.Kill()
		m.process.Wait()
		m.process = nil
	}
}

// Restart starts member i again, on its data.
func (c *Cluster) Restart(i int) {
	c.tb.Helper()
	c.Kill(i)
	c.members[i].config.Existing = true
	c.start(i)
}

// Stop and Continue send SIGSTOP and SIGCONT to member i.
func (c *Cluster) Stop(i int)     { c.members[i].process.Process.Signal(syscall.SIGSTOP) }
func (c *Cluster) Continue(i int) { c.members[i].process.Process.Signal(syscall.SIGCONT) }

// Split cuts every connection between the members given and the others; Heal mends all.
func (c *Cluster) Split(side ...int) { c.network.split(side) }
func (c *Cluster) Heal()             { c.network.split(nil) }

// Endpoints of the members given, or of all.
func (c *Cluster) Endpoints(members ...int) []string {
	if len(members) == 0 {
		for i := range c.members {
			members = append(members, i)
		}
	}
	var out []string
	for _, i := range members {
		out = append(out, c.members[i].config.Client)
	}
	return out
}

// Client connects to the members given, or to all, until the test ends.
func (c *Cluster) Client(members ...int) *clientv3.Client {
	c.tb.Helper()
	return c.dial(c.Endpoints(members...)...)
}

func (c *Cluster) dial(endpoints ...string) *clientv3.Client {
	c.tb.Helper()
	if c.secure == nil {
		return Dial(c.tb, endpoints...)
	}
	return dial(c.tb, clientv3.Config{Endpoints: endpoints, TLS: c.secure.Client(c.tb)})
}

// WaitReady waits until member i answers a linearizable read.
func (c *Cluster) WaitReady(i int) { c.tb.Helper(); waitReady(c.tb, c.dial(c.Endpoints(i)[0])) }

// Leader is the number of the member that leads.
func (c *Cluster) Leader() int {
	c.tb.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for i, m := range c.members {
			if m.process == nil {
				continue
			}
			client := c.dial(c.Endpoints(i)[0])
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			s, err := client.Status(ctx, c.Endpoints(i)[0])
			cancel()
			client.Close()
			if err == nil && s.Leader != 0 && s.Leader == s.Header.MemberId {
				return i
			}
		}
	}
	c.tb.Fatal("the cluster has no leader")
	return 0
}

// Dial connects to endpoints until the test ends.
func Dial(tb testing.TB, endpoints ...string) *clientv3.Client {
	tb.Helper()
	return dial(tb, clientv3.Config{Endpoints: endpoints})
}

func dial(tb testing.TB, cfg clientv3.Config) *clientv3.Client {
	tb.Helper()
	cfg.Logger = zap.NewNop()
	client, err := clientv3.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	return client
}

func waitReady(tb testing.TB, client *clientv3.Client) {
	tb.Helper()
	defer client.Close()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err = client.Get(ctx, "ready")
		if cancel(); err == nil {
			return
		}
	}
	tb.Fatalf("etcd at %v does not answer: %v", client.Endpoints(), err)
}

func freeAddress(tb testing.TB) string {
	tb.Helper()
	address, err := freeport.Address()
	if err != nil {
		tb.Fatal(err)
	}
	return address
}
