package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
)

// An observer says that the cluster has gone, whether it is dead or silent and whether the lock is held or not, and goes on
// when it is back. The client would wait without a word.
func TestObserveOutage(t *testing.T) {
	t.Parallel()
	for what, outage := range map[string]struct{ begin, end func(c *etcdtest.Cluster) }{
		"dead":   {func(c *etcdtest.Cluster) { c.Kill(0) }, func(c *etcdtest.Cluster) { c.Restart(0) }},
		"silent": {func(c *etcdtest.Cluster) { c.Stop(0) }, func(c *etcdtest.Cluster) { c.Continue(0) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := etcdtest.Start(t, 1)
			client := newClient(t, c.Client(), lockclient.WithTTL(time.Minute))
			l, err := client.Lock(background, "held")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			type seen struct {
				leader lockclient.Leader
				err    error
			}
			events := map[string]chan seen{}
			for _, name := range []string{"held", "vacant"} {
				ch := make(chan seen, 100)
				events[name] = ch
				go func() {
					for leader, err := range client.Observe(ctx, name) {
						ch <- seen{leader, err}
					}
				}()
			}
			next := func(name string, want func(s seen) bool) {
				t.Helper()
				over := time.After(40 * time.Second)
				for {
					select {
					case s := <-events[name]:
						if want(s) {
							return
						}
					case <-over:
						t.Fatal(name + ": not seen")
					}
				}
			}
			state := func(name string) func(s seen) bool {
				return func(s seen) bool {
					return s.err == nil && (s.leader.Token == l.Fence().Token) == (name == "held") && s.leader.Vacant() == (name == "vacant")
				}
			}
			for name := range events {
				next(name, state(name))
			}
			outage.begin(c)
			for name := range events {
				next(name, func(s seen) bool { return errors.Is(s.err, lockclient.ErrUnavailable) })
			}
			outage.end(c)
			for name := range events {
				next(name, state(name))
			}
		})
	}
}
