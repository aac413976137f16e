package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

var full = flag.Bool("full", false, "10,000 tenures, and 400 schedules")

// 16 contenders, half of them in a process of their own as the backend sees it: tokens rise from tenure to tenure, no two
// tenures overlap, and nobody waits for much longer than a round of all.
func TestContenders(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	const contenders = 16
	each := 640 / contenders
	if *full {
		each = 10_000 / contenders
	}
	name := lockName()
	clients := []*lockclient.Client{w.client(Config{}), w.client(Config{})}
	var mu sync.Mutex
	var last tokens.Token
	inside, total := 0, 0
	var all sync.WaitGroup
	begin := time.Now()
	lastTurn := make([]int, contenders)
	longest := 0 // tenures of others between two of one contender
	for i := range contenders {
		all.Go(func() {
			for range each {
				err := clients[i%2].Do(ctx, name, func(_ context.Context, l *lockclient.Lease) error {
					mu.Lock()
					inside++
					if inside != 1 {
						t.Error("two holders")
					}
					if l.Fence().Token.Compare(last) <= 0 {
						t.Errorf("token %s after %s", l.Fence().Token, last)
					}
					last = l.Fence().Token
					total++
					longest = max(longest, total-lastTurn[i])
					lastTurn[i] = total
					mu.Unlock()
					defer func() { mu.Lock(); inside--; mu.Unlock() }()
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if total != each*contenders {
		t.Error("tenures:", total)
	}
	if longest > 16*contenders {
		t.Errorf("somebody waited for %d tenures of others", longest)
	}
	t.Logf("%d tenures of %d contenders in %v, longest wait %d tenures", total, contenders, time.Since(begin), longest)
}

// Schedules of the lease table: random steps of four clients, crashes and the passing of time, against what the table may
// do. Time passes by moving the table's times back, so a schedule takes no time of its own.
func TestSchedules(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	b := w.open(Config{Grace: -1}).(*leases)
	n := 40
	if *full {
		n = 400
	}
	const steps = 120
	for seed := range n {
		t.Run(strconv.Itoa(seed), func(t *testing.T) { schedule(t, w, b, rand.New(rand.NewSource(int64(seed))), steps) })
	}
	t.Logf("%d schedules of %d steps", n, steps)
}

// actor is a client as the table sees it: what it was told last.
type actor struct {
	claim  *lockclient.Claim
	held   bool // at the server
	told   bool // and it knows
	expiry int  // of what it was told, in schedule time
	queued int  // order of arrival
}

func schedule(t *testing.T, w *world, b *leases, r *rand.Rand, steps int) {
	name := lockName()
	const ttl = 100 // seconds
	now, arrivals := 0, 0
	var last tokens.Token
	const clients = 4
	actors := make([]*actor, clients)
	for i := range actors {
		actors[i] = &actor{}
	}
	var log []string
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nschedule:\n%v", fmt.Sprintf(format, args...), log)
	}
	alive := func(a *actor) bool { return a.claim != nil && now < a.expiry }
	granted := func(i int, token tokens.Token) {
		for j, o := range actors {
			if j != i && alive(o) && o.held {
				fail("%d was granted while %d holds", i, j)
			}
			if j != i && alive(o) && !o.held && actors[i].queued > 0 && o.queued < actors[i].queued {
				fail("%d was granted before %d, which came first", i, j)
			}
		}
		if token.Compare(last) <= 0 {
			fail("token %s after %s", token, last)
		}
		last = token
		if m := w.mark(name); m != token.String() {
			fail("mark %s, token %s", m, token)
		}
		actors[i].held, actors[i].expiry, actors[i].queued = true, now+ttl, 0
	}
	for range steps {
		i := r.Intn(clients)
		a := actors[i]
		switch step := r.Intn(10); {
		case step < 2:
			d := 1 + r.Intn(ttl/2)
			log = append(log, fmt.Sprintf("+%d", d))
			now += d
			w.exec(fmt.Sprintf("UPDATE fence.lease SET expires_at = expires_at - interval '%[1]d s' WHERE name = '%[2]s'; UPDATE fence.ticket SET expires_at = expires_at - interval '%[1]d s' WHERE name = '%[2]s'", d, name))
		case a.claim == nil:
			queue := r.Intn(3) > 0
			log = append(log, fmt.Sprintf("%d requests (%v)", i, queue))
			c, err := b.Request(ctx, lockclient.Request{Name: name, TTL: ttl * time.Second, Queue: queue})
			if errors.Is(err, lockclient.ErrHeld) {
				taken := false
				for _, o := range actors {
					taken = taken || alive(o)
				}
				if !taken {
					fail("%d was refused, and nobody is there", i)
				}
				continue
			}
			if err != nil {
				fail("%v", err)
			}
			arrivals++
			*a = actor{claim: &c, queued: arrivals, expiry: now + ttl, told: c.Held}
			if c.Held {
				granted(i, c.Token)
			}
		case step < 6 && !a.told:
			lost := r.Intn(3) == 0
			log = append(log, fmt.Sprintf("%d takes (answer lost: %v)", i, lost))
			ans, err := b.ask(ctx, takeSQL, name, a.claim.Ref, false)
			if err != nil {
				fail("%v", err)
			}
			switch {
			case ans.state == "held":
				if a.held {
					if !alive(a) || ans.token != last {
						fail("%d is told %s again, last was %s, alive %v", i, ans.token, last, alive(a))
					}
					a.expiry = now + ttl
				} else {
					granted(i, ans.token)
				}
				a.told = !lost
			case ans.state == "gone":
				if alive(a) {
					fail("the ticket of %d is gone too early", i)
				}
				a.claim = nil
			case !alive(a):
				fail("%d is still %s", i, ans.state)
			}
		case step < 8:
			log = append(log, fmt.Sprintf("%d renews", i))
			_, err := b.Renew(ctx, *a.claim)
			switch {
			case err == nil && !alive(a):
				fail("%d renewed what was over", i)
			case err == nil:
				a.expiry = now + ttl
			case !errors.Is(err, lockclient.ErrLost):
				fail("%v", err)
			case alive(a):
				fail("%d has lost what it had", i)
			default:
				a.claim = nil
			}
		case step < 9:
			log = append(log, fmt.Sprintf("%d releases", i))
			err := b.Release(ctx, *a.claim)
			if (err == nil) != alive(a) && !(err == nil && !a.held) {
				fail("release: %v, alive %v", err, alive(a))
			}
			a.claim = nil
		default:
			log = append(log, fmt.Sprintf("%d dies", i))
			if alive(a) { // nobody hears of it again, but what it has counts until its end
				ghost := *a
				actors = append(actors, &ghost)
			}
			*a = actor{}
		}
		for j := len(actors) - 1; j >= clients; j-- { // ghosts whose time is over
			if !alive(actors[j]) {
				actors = append(actors[:j], actors[j+1:]...)
			}
		}
	}
}
