package lockclient_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/memory"
)

func init() {
	lockclient.Register("test", lockclient.Driver{
		Options: map[string]string{"color": "of the bike shed"},
		Open: func(_ context.Context, a lockclient.Address) (lockclient.Backend, error) {
			return memory.NewServer(1).Connect(), nil
		},
	})
}

func TestOpen(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"test://h", ""},
		{"test://h1:1,h2:2/p?ttl=3s&grace=1s&holder=me&color=red", ""},
		{"etcdd://h", `unknown lock backend "etcdd"; known: test`},
		{"test:h", "scheme://host/path?options"},
		{"test://h?colour=red", `unknown option "colour" of test://`},
		{"test://h?colour=red", "color: of the bike shed"},
		{"test://h?colour=red", "ttl: time after which"},
		{"test://h?ttl=3", "option ttl"},
		{"test://h?ttl=1s&grace=1s", "grace 1s is not between"},
		{"test://h?ttl=1us", "below the minimum"},
		{"test://h?%zz", "malformed"},
	} {
		client, err := lockclient.Open(background, c.url)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.url, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.url, err, c.want)
		}
		if client != nil {
			client.Close()
		}
	}
	c, err := lockclient.Open(background, "test://h?ttl=3s")
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.TryLock(background, "l")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(l.ValidUntil()); left > 3*time.Second {
		t.Errorf("%v of a window of 3s", left)
	}
	l.Release(background)
}

func TestParseAddress(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"etcd://a", "etcd [a]  map[]"},
		{"etcd://a:1,b:2,[::1]:3/x/y?k=v", "etcd [a:1 b:2 [::1]:3] x/y map[k:[v]]"},
		{"ETCD://u:p%40ss@a/", "etcd u:p%40ss [a]  map[]"},
		{"postgres://u@/db?host=/run", "postgres u []  db map[host:[/run]]"},
		{"etcd://a,,b", "error"},
		{"etcd://u:%z@a", "error"},
		{"://a", "error"},
	} {
		a, err := lockclient.ParseAddress(c.url)
		got := "error"
		if err == nil {
			got = fmt.Sprint(a.Scheme, " ", a.User, " ", a.Hosts, " ", a.Path, " ", a.Options)
		}
		if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(c.want), " ") {
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "%z") {
			t.Errorf("%s: password in %v", c.url, err)
		}
	}
}
