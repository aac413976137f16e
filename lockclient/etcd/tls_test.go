package etcd_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

// The server is checked, the client has a certificate when the server wants one, and what is wrong is told: trust is for
// good, not something to try again.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, others := etcdtest.NewCertificates(t), etcdtest.NewCertificates(t)
	verified := etcdtest.StartTLS(t, 1, ours, false)
	mutual := etcdtest.StartTLS(t, 1, ours, true)
	plain := etcdtest.Start(t, 1)
	ca, otherCA := "ca="+ours.CA, "ca="+others.CA
	cert := "&cert=" + ours.ClientCert + "&key=" + ours.ClientKey
	otherCert := "&cert=" + others.ClientCert + "&key=" + others.ClientKey
	for _, c := range []struct {
		what    string
		cluster *etcdtest.Cluster
		options string
		want    string // in the error, "" for none
	}{
		{"server checked", verified, ca, ""},
		{"certificate that nobody asks for", verified, ca + cert, ""},
		{"mutual", mutual, ca + cert, ""},
		{"another authority", verified, otherCA, "certificate signed by unknown authority"},
		{"the system's authorities", verified, "tls=true", "certificate signed by unknown authority"},
		{"another authority, mutual", mutual, otherCA + cert, "certificate signed by unknown authority"},
		{"no certificate", mutual, ca, "certificate required"},
		{"a stranger's certificate", mutual, ca + otherCert, "remote error: tls: "},
	} {
		_, host, _ := strings.Cut(c.cluster.Endpoints()[0], "//")
		client, err := lockclient.Open(background, "etcd://"+host+"/p?ttl=3s&dial=1s&"+c.options)
		if c.want != "" {
			if err == nil {
				client.Close()
				t.Errorf("%s: opens", c.what)
			} else if !strings.Contains(err.Error(), c.want) || errors.Is(err, lockclient.ErrUnavailable) {
				t.Errorf("%s: %v", c.what, err)
			} else {
				t.Logf("%s: %v", c.what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		l, err := client.TryLock(background, "x")
		if err == nil {
			err = errors.Join(l.Confirm(background), l.Release(background))
		}
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		client.Close()
	}
	// One side speaks TLS only: it may be anything that closes connections, so it is not for good, but there is a hint.
	for _, c := range []struct {
		cluster       *etcdtest.Cluster
		options, hint string
	}{{verified, "", "tls=true"}, {plain, "&" + ca, "does it speak TLS?"}} {
		_, host, _ := strings.Cut(c.cluster.Endpoints()[0], "//")
		_, err := lockclient.Open(background, "etcd://"+host+"/p?dial=500ms"+c.options)
		if !errors.Is(err, lockclient.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), c.hint) {
			t.Errorf("%s: %v", c.hint, err)
		}
	}
}

// What cannot be reached now may be there later.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, by its backlog, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	frozen := etcdtest.Start(t, 1)
	frozen.Stop(0)
	defer frozen.Continue(0)
	for what, c := range map[string]struct{ host, want string }{
		"nobody listens": {"127.0.0.1:1", "connection refused"},
		"silence":        {silent.Addr().String(), "does not answer"},
		"frozen":         {strings.TrimPrefix(frozen.Endpoints()[0], "http://"), "does not answer"},
		"no such host":   {"no-such-host.invalid", "no-such-host.invalid"},
		"one of two":     {"127.0.0.1:1," + silent.Addr().String(), "connection refused"},
		"a user":         {"u:p@127.0.0.1:1", "connection refused"},
	} {
		began := time.Now()
		_, err := lockclient.Open(background, "etcd://"+c.host+"/p?dial=300ms")
		if !errors.Is(err, lockclient.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if d := time.Since(began); d > 4*time.Second {
			t.Errorf("%s: after %v", what, d)
		}
	}
}
