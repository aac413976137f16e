package run

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/lockclient"
	_ "github.com/fenceproxy/fenceproxy/lockclient/etcd"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// The same over etcd: the token is announced by the proxy, and when etcd is gone the command ends within the window.
func TestEtcd(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	w.c.Exec(t, w.db, "CREATE TABLE acct (v int)")
	proxy := proxytest.Start(t, w.c.DSN(w.db, "postgres"), "--fence", "billing=acct")
	cluster := etcdtest.Start(t, 1)
	url := "etcd://" + strings.TrimPrefix(cluster.Endpoints()[0], "http://")
	client, err := lockclient.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w.client = client

	for range 2 {
		p := w.start("run", "--lock", "billing", "--backend", url, "--", "psql", "-XAtq", "-d", proxy.DSN(w.db, "postgres"), "-c", "INSERT INTO acct VALUES (1) RETURNING v")
		p.wantExit(0)
		p.says("1")
	}
	p := w.start("run", "--lock", "held", "--backend", url, "--ttl", ttl.String(), "--grace", grace.String(), "--", "sh", "-c", stubborn["forks"])
	p.says("up")
	if other := w.start("run", "--lock", "held", "--backend", url, "--try", "--", "true"); other.exit() != 75 {
		t.Error("a second one got the lock")
	}
	cluster.Kill(0)
	p.wantGone(ttl)
	p.wantExit(76)
	cluster.Restart(0)
	w.nextHolder("held", p)
}
