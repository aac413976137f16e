package run

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func TestLock(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	p := w.startWithInput("lock", "a", "--ttl", "1500ms")
	p.says("1.1\n")
	if _, err := w.client.TryLock(ctx, "a"); !errors.Is(err, lockclient.ErrHeld) {
		t.Error(err)
	}
	p.in.Close()
	p.wantExit(0)
	l, err := w.client.TryLock(ctx, "a")
	if err != nil {
		t.Fatal("not released:", err)
	}
	p = w.startWithInput("lock", "a", "--try")
	p.wantExit(75)
	p = w.startWithInput("lock", "a", "--json")
	l.Release(ctx)
	p.says(`"token":"1.3"`)
	p.kill(syscall.SIGTERM)
	p.wantExit(0)
	p = w.startWithInput("lock", "a", "--ttl", "1500ms")
	p.says("1.4\n")
	w.c.Exec(t, w.db, "UPDATE fence.lease SET claim = NULL")
	p.wantExit(76)
}

// What the service refuses for good is no lock that is taken.
func TestRefused(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	pair := w.url() + "&mode=advisory&keys=pair"
	for _, args := range [][]string{
		{"lock", "a", "--ttl", "48h"}, {"elect", "a", "--id", "x", "--ttl", "48h"}, {"lock", "a", "--backend", pair},
		{"elect", "a", "--id", "x", "--backend", pair}, {"watch", "a", "--backend", pair},
	} {
		w.startWithInput(args...).wantExit(2)
	}
}

func TestElectAndWatch(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	watch, watchJSON := w.start("watch", "lead"), w.start("watch", "lead", "--json")
	watch.says("lead vacant")
	one := w.start("elect", "lead", "--id", "node-1", "--ttl", "1500ms")
	one.says("elected lead 1.1\n")
	watch.says("lead 1.1 node-1 since ")
	two := w.start("elect", "lead", "--id", "node-2", "--json")
	eventually(t, "queued", func() bool { return w.queued("lead") == 1 })
	one.kill(syscall.SIGTERM)
	one.wantExit(0)
	two.says(`{"lock":"lead","id":"node-2","elected":true,"token":"1.2"}`)
	watch.says("lead 1.2 node-2 since ")
	watchJSON.says(`"holder":"node-2","token":"1.2"`)
	// Lost, and elected again with a new token.
	w.c.Exec(t, w.db, "UPDATE fence.lease SET expires_at = clock_timestamp()")
	two.says(`"elected":false,"token":"1.2","reason":"lost`)
	two.says(`"elected":true,"token":"1.3"`)
	for _, p := range []*process{two, watch, watchJSON} {
		p.kill(syscall.SIGTERM)
		p.wantExit(0)
	}
	if !strings.Contains(one.out.String(), "ended lead 1.1: resigned") {
		t.Error(one.out)
	}
}
