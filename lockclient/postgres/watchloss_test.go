package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// A holder hears at once that somebody has raised the mark above its token, has taken or cleared its lease, or that its
// session is over: not only at its next renewal, 20 s later.
func TestLossIsTold(t *testing.T) {
	for _, tc := range []struct {
		what   string
		mode   Mode
		strike string // $1 is the lock
		want   string
	}{
		{"raised by an operator", Lease, "SELECT fence.raise($1, epoch, token + 1, 'operator', NULL) FROM fence.mark WHERE name = $1", "was raised to"},
		{"epoch bumped", Lease, "SELECT fence.bump_epoch($1, 'test')", "was raised to"},
		{"the mark of an advisory lock", Advisory, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND $1 <> ''", "session has ended"},
	} {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(tc.what+"/"+network, func(t *testing.T) {
				w := newWorld(t, pgtest.Shared(t))
				dsn := w.c.DSN(w.db, "control")
				if network == "unix" {
					dsn = w.c.SocketDSN(w.db, "control")
				}
				client := w.client(Config{Mode: tc.mode, DSN: dsn}, lockclient.WithTTL(time.Minute))
				name := lockName()
				l := must[*lockclient.Lease](t)(client.Lock(ctx, name))
				if tc.mode == Lease {
					eventually(t, "looked at since it listens", func() bool {
						return w.text(`SELECT EXISTS (SELECT FROM fence.ticket t, pg_stat_activity a WHERE t.name = $1 AND NOT t.waits
							AND a.datname = current_database() AND a.query = 'LISTEN fence_lease' AND t.expires_at - interval '10 s' > a.query_start)`, name) == "true"
					})
				}
				if _, err := w.su.Exec(ctx, tc.strike, name); err != nil {
					t.Fatal(err)
				}
				select {
				case <-l.Done():
				case <-time.After(6 * time.Second):
					t.Error("not told")
				}
				var lost *lockclient.LostError
				if !errors.As(l.Err(), &lost) || lost.Reason != lockclient.Gone || !strings.Contains(lost.Error(), tc.want) {
					t.Error(l.Err())
				}
				l.Release(ctx)
				next := must[*lockclient.Lease](t)(client.TryLock(ctx, name))
				if next.Fence().Token.Compare(l.Fence().Token) <= 0 {
					t.Error(next.Fence())
				}
				if err := next.Release(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// However many locks a client holds, waits for and observes, one connection of it listens.
func TestOneConnectionListens(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	client := w.client(Config{}, lockclient.WithTTL(2*time.Second))
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var names []string
	for range 8 {
		names = append(names, lockName())
		l := must[*lockclient.Lease](t)(client.Lock(ctx, names[len(names)-1]))
		defer l.Release(ctx)
	}
	go client.Lock(limited, names[0])
	go func() {
		for range client.Observe(limited, names[1]) {
		}
	}()
	eventually(t, "all watched, one waited for, one observed", func() bool {
		return w.text("SELECT count(*) FILTER (WHERE waits) || ' ' || count(*) FILTER (WHERE NOT waits) FROM fence.ticket WHERE name = ANY ($1)", names) == "1 9"
	})
	listens := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN fence_lease'"
	eventually(t, "listens", func() bool { return w.text(listens) != "0" })
	if n := w.text(listens); n != "1" {
		t.Error(n, "connections listen")
	}
}

// Watching costs waiters nothing: a grant wakes those that watch, and not the next in the queue. And a lease whose mark was
// raised to its own token is not lost.
func TestLossIsNotTold(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	client := w.client(Config{}, lockclient.WithTTL(2*time.Second))
	name := lockName()
	l := must[*lockclient.Lease](t)(client.Lock(ctx, name))
	eventually(t, "watched", func() bool {
		return w.text("SELECT count(*) FROM fence.ticket WHERE name = $1 AND NOT waits", name) == "1"
	})
	w.exec("UPDATE fence.mark SET holder = 'touched' WHERE name = '" + name + "'")
	w.exec("SELECT pg_notify('fence_lease', '" + name + " ')")
	if err := l.Confirm(ctx); err != nil {
		t.Error(err)
	}
	if err := l.Release(ctx); err != nil {
		t.Error(err)
	}
	eventually(t, "nothing is left behind", func() bool {
		return w.text("SELECT count(*) FROM fence.ticket WHERE name = $1", name) == "0"
	})
}
