package etcd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "not.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ url, want string }{
		{"etcd://127.0.0.1:1/?dial=200ms", "http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"etcd:///p", "no host"},
		{"etcd://h?prefix=x", `unknown option "prefix"`},
		{"etcd://h?dial=x", "option dial"},
		{"etcd://h?dial=-1s", "option dial"},
		{"etcd://h?tls=yes", "option tls"},
		{"etcd://h?cert=a", "go together"},
		{"etcd://h?tls=false&ca=" + file, "tls is false"},
		{"etcd://h?ca=" + file, "holds no certificate"},
		{"etcd://h?ca=/nowhere/at/all", "option ca"},
		{"etcd://h?cert=" + file + "&key=" + file, "options cert and key"},
		{"etcd://h?ttl=500ms", ""},
	} {
		began := time.Now()
		client, err := lockclient.Open(background, c.url+map[bool]string{true: "&dial=100ms"}[c.want == ""])
		if err == nil {
			client.Close()
			t.Errorf("%s opens", c.url)
		} else if !strings.Contains(err.Error(), c.want) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %v, want %q", c.url, err, time.Since(began), c.want)
		}
	}
}

// With authentication, rights on the prefix are enough, and a lack of them is told at once.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1)
	raw := cluster.Client()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(raw.UserAdd(background, "root", "pw"))
	do(raw.UserGrantRole(background, "root", "root"))
	do(raw.RoleAdd(background, "locks"))
	do(raw.RoleGrantPermission(background, "locks", "app/", clientv3.GetPrefixRangeEnd("app/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	do(raw.UserAdd(background, "app", "p@ss"))
	do(raw.UserGrantRole(background, "app", "locks"))
	do(raw.AuthEnable(background))
	host := strings.TrimPrefix(cluster.Endpoints()[0], "http://")

	c, err := lockclient.Open(background, "etcd://app:p%40ss@"+host+"/app?ttl=3s")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Lock(background, "l")
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan error, 1)
	go func() {
		m, err := c.Lock(background, "l")
		if err == nil {
			err = m.Release(background)
		}
		next <- err
	}()
	time.Sleep(4 * time.Second) // renewals, in the queue and after, need rights too
	if err := l.Confirm(background); err != nil {
		t.Error(err)
	}
	if err := errors.Join(l.Release(background), <-next); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(background, 20*time.Second)
	defer cancel()
	for what, url := range map[string]string{"password": "etcd://app:wrong@" + host + "/app?dial=10s", "prefix": "etcd://app:p%40ss@" + host + "/other?dial=10s"} {
		if c, err := lockclient.Open(ctx, url); err == nil {
			c.Close()
			t.Errorf("opens with a wrong %s", what)
		} else if errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "p@ss") {
			t.Errorf("wrong %s: %v", what, err)
		} else {
			t.Log(err)
		}
	}
}
