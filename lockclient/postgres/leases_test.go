package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// I3: the token is the mark at the moment the lock is held, and each tenure has a higher one, whoever holds it.
func TestTenures(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{})
	name, other := lockName(), lockName()
	var last tokens.Token
	for range 3 {
		l := must[*lockclient.Lease](t)(c.Lock(ctx, name, lockclient.WithHolder("worker 1")))
		got := l.Fence().Token
		if got.Compare(last) <= 0 {
			t.Fatalf("%s after %s", got, last)
		}
		if m := w.mark(name); m != got.String() {
			t.Fatalf("mark %s, token %s", m, got)
		}
		_, err := c.TryLock(ctx, name)
		var held *lockclient.HeldError
		if !errors.As(err, &held) || held.Holder != "worker 1" || held.Token != got || held.Since.IsZero() {
			t.Fatalf("%v %+v", err, held)
		}
		if err := l.Confirm(ctx); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		o := must[*lockclient.Lease](t)(c.Lock(ctx, other))
		if o.Fence().Token.Compare(got) <= 0 {
			t.Fatalf("tokens of two locks are not comparable: %s, then %s", got, o.Fence().Token)
		}
		o.Release(ctx)
		last = o.Fence().Token
	}
}

// A lease can be renewed and released by its claim only, and not once it has run out: then it never comes back.
func TestClaims(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	b := w.open(Config{})
	name := lockName()
	claim := must[lockclient.Claim](t)(b.Request(ctx, lockclient.Request{Name: name, TTL: time.Minute}))
	stranger := claim
	stranger.Ref = newID()
	if _, err := b.Renew(ctx, stranger); err != lockclient.ErrLost {
		t.Error("a stranger's renewal:", err)
	}
	if err := b.Release(ctx, stranger); err != lockclient.ErrLost {
		t.Error("a stranger's release:", err)
	}
	if ttl, err := b.Renew(ctx, claim); err != nil || ttl != time.Minute {
		t.Error("renew:", ttl, err)
	}
	w.exec("UPDATE fence.lease SET expires_at = clock_timestamp()")
	if _, err := b.Renew(ctx, claim); err != lockclient.ErrLost {
		t.Error("renew after its end:", err)
	}
	if err := b.Release(ctx, claim); err != lockclient.ErrLost {
		t.Error("release after its end:", err)
	}
	again := must[lockclient.Claim](t)(b.Request(ctx, lockclient.Request{Name: name, TTL: time.Minute}))
	if again.Token.Compare(claim.Token) <= 0 {
		t.Error("the same token again")
	}
	if err := b.Release(ctx, claim); err != lockclient.ErrLost { // a retried release must not end a newer lock
		t.Error("release of the old tenure:", err)
	}
	if err := b.Release(ctx, again); err != nil {
		t.Error(err)
	}
}

// An answer that was lost: the grant is told again, and its time counts anew, as the client counts it. Mutant "the take does
// not renew": red.
func TestLostAnswer(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	b := w.open(Config{}).(*leases)
	name := lockName()
	first := must[lockclient.Claim](t)(b.Request(ctx, lockclient.Request{Name: name, TTL: 10 * time.Second}))
	second := must[lockclient.Claim](t)(b.Request(ctx, lockclient.Request{Name: name, TTL: 10 * time.Second, Queue: true}))
	if err := b.Release(ctx, first); err != nil {
		t.Fatal(err)
	}
	a := must[answer](t)(b.ask(ctx, takeSQL, name, second.Ref, false)) // which nobody hears of
	w.exec("UPDATE fence.lease SET expires_at = expires_at - interval '9 s'")
	got := must[lockclient.Claim](t)(b.Wait(ctx, second))
	if got.Token != a.token {
		t.Errorf("two tokens for one claim: %s, %s", a.token, got.Token)
	}
	if left := w.text("SELECT extract(epoch FROM expires_at - clock_timestamp()) > 9 FROM fence.lease"); left != "true" {
		t.Error("the client counts longer than the server")
	}
}

// I2, I3: the lock is not granted while transactions of the last holder are in flight. They commit or are ended, and
// fail afterwards. Mutant "grant without entering the fence": red.
func TestTakeoverWaitsForGuarded(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	const grace = 1200 * time.Millisecond
	patient, strict := w.client(Config{Grace: -1}), w.client(Config{Grace: grace})
	name := lockName()
	l := must[*lockclient.Lease](t)(patient.Lock(ctx, name))
	old := l.Fence().Token
	g := w.mustGuard(name, old)
	l.Release(ctx)

	_, err := patient.TryLock(ctx, name, lockclient.WithTTL(2*time.Second))
	if !errors.Is(err, lockclient.ErrHeld) {
		t.Fatal("with a guarded transaction open:", err)
	}
	got := make(chan *lockclient.Lease, 1)
	go func() {
		l, err := patient.Lock(ctx, name)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	eventually(t, "the takeover waits", func() bool {
		return w.text("SELECT count(*) FROM pg_locks WHERE classid = 1178947139 AND NOT granted") == "1"
	})
	if m := w.mark(name); m != old.String() {
		t.Error("raised too early:", m)
	}
	if err := g.tx.Commit(ctx); err != nil {
		t.Error("the old holder's transaction:", err)
	}
	l = <-got
	if _, err := w.guard(name, old); !isCode(err, "ZF001") {
		t.Error("the old token afterwards:", err)
	}

	// A frozen one is ended after the grace, also for somebody who only ever tries, for half a TTL each time.
	g = w.mustGuard(name, l.Fence().Token)
	l.Release(ctx)
	begin := time.Now()
	for {
		l, err = strict.TryLock(ctx, name, lockclient.WithTTL(time.Second))
		if err == nil {
			break
		}
		if !errors.Is(err, lockclient.ErrHeld) && !errors.Is(err, lockclient.ErrUnavailable) || time.Since(begin) > patience {
			t.Fatal(err) // a busy machine may take longer than that TTL for an answer
		}
	}
	if d := time.Since(begin); d < grace-50*time.Millisecond {
		t.Error("ended before the grace was over:", d)
	}
	l.Release(ctx)
	if err := g.tx.Commit(ctx); err == nil {
		t.Error("the frozen transaction committed")
	}
}

// First come, first served; and each handover is told, not found out.
func TestQueue(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{}, lockclient.WithTTL(time.Minute)) // who is not told asks again when that is over
	name := lockName()
	first := must[*lockclient.Lease](t)(c.Lock(ctx, name))
	var mu sync.Mutex
	var order []int
	var last tokens.Token
	var all sync.WaitGroup
	const waiters = 8
	for i := range waiters {
		all.Go(func() {
			err := c.Do(ctx, name, func(_ context.Context, l *lockclient.Lease) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				if l.Fence().Token.Compare(last) <= 0 {
					t.Error("tokens out of order")
				}
				last = l.Fence().Token
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		eventually(t, "queued", func() bool {
			return w.text("SELECT count(*) FROM fence.ticket WHERE name = $1 AND waits", name) == string(rune('1'+i))
		})
	}
	if _, err := c.TryLock(ctx, name); !errors.Is(err, lockclient.ErrHeld) {
		t.Error(err)
	}
	// Who gives up leaves the queue.
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	if _, err := c.Lock(short, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	cancel()
	begin := time.Now()
	first.Release(ctx)
	all.Wait()
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("%d handovers took %v: nobody is told", waiters, d)
	}
	if !slices.IsSorted(order) || len(order) != waiters {
		t.Error("order:", order)
	}
	if n := w.text("SELECT count(*) FROM fence.ticket WHERE name = $1 AND waits", name); n != "0" {
		t.Error("tickets left:", n)
	}
}

// A holder that died is replaced when its TTL is over, and not before; a dead waiter does not block the queue for longer.
func TestDeadHolder(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	b := w.open(Config{})
	c := lockclient.New(b)
	name := lockName()
	const ttl = 600 * time.Millisecond
	begin := time.Now()
	must[lockclient.Claim](t)(b.Request(ctx, lockclient.Request{Name: name, TTL: ttl}))
	l := must[*lockclient.Lease](t)(c.Lock(ctx, name))
	if d := time.Since(begin); d < ttl || d > ttl+2*time.Second { // 0.2 s is the target of make bench-locks; a busy machine is no fault
		t.Errorf("taken over after %v", d)
	} else {
		t.Logf("taken over %v after the TTL", d-ttl)
	}
	must[lockclient.Claim](t)(b.Request(ctx, lockclient.Request{Name: name, TTL: ttl, Queue: true})) // and nobody renews it
	time.AfterFunc(50*time.Millisecond, func() { l.Release(ctx) })
	begin = time.Now()
	l = must[*lockclient.Lease](t)(c.Lock(ctx, name))
	if d := time.Since(begin); d > ttl+3*time.Second {
		t.Errorf("a dead waiter was in the way for %v", d)
	}
	l.Release(ctx)
}

func TestObserve(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{})
	name := lockName()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen := make(chan lockclient.Leader, 10)
	go func() {
		defer close(seen)
		for l, err := range c.Observe(limited, name) {
			if err != nil {
				t.Error(err)
				return
			}
			seen <- l
		}
	}()
	want := func(what string, ok func(lockclient.Leader) bool) {
		t.Helper()
		if l := <-seen; !ok(l) {
			t.Errorf("%s: %+v", what, l)
		}
	}
	want("vacant at first", lockclient.Leader.Vacant)
	l := must[*lockclient.Lease](t)(c.Lock(ctx, name, lockclient.WithHolder("a")))
	want("held", func(x lockclient.Leader) bool {
		return x.Holder == "a" && x.Token == l.Fence().Token && !x.Since.IsZero()
	})
	begin := time.Now()
	l.Release(ctx)
	want("vacant again", lockclient.Leader.Vacant)
	if d := time.Since(begin); d > 4*time.Second { // by itself an observer looks every 8 s
		t.Errorf("vacancy was told after %v", d)
	}
	b := w.open(Config{})
	must[lockclient.Claim](t)(b.Request(ctx, lockclient.Request{Name: name, TTL: 300 * time.Millisecond, Holder: "dies"}))
	want("held again", func(x lockclient.Leader) bool { return x.Holder == "dies" })
	want("vacant by expiry", lockclient.Leader.Vacant)
	cancel()
	for range seen {
	}
}

// The issuer's counter and the mark: what came from elsewhere is never above a new token.
func TestTokensAboveTheMark(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{})
	lock := func(name string) string {
		t.Helper()
		l := must[*lockclient.Lease](t)(c.Lock(ctx, name))
		defer l.Release(ctx)
		if err := w.mustGuard(name, l.Fence().Token).tx.Commit(ctx); err != nil {
			t.Error(err)
		}
		return l.Fence().Token.String()
	}
	etcd := lockName()
	w.exec("SELECT fence.raise('" + etcd + "', 0, 5000000, 'etcd', NULL)")
	if got := lock(etcd); got != "1.1" {
		t.Error("over etcd's tokens:", got)
	}
	w.exec("SELECT fence.raise('" + etcd + "', 1, 70, 'by hand', NULL)")
	if got := lock(etcd); got != "1.71" {
		t.Error("over a raise by hand:", got)
	}
	w.exec("SELECT fence.bump_epoch('" + etcd + "', 'test')")
	if got := lock(etcd); got != "2.72" {
		t.Error("after a bump:", got)
	}
	if got := lock(lockName()); got != "2.73" {
		t.Error("another lock after that:", got)
	}
	// A database that was dumped and restored elsewhere, or pg_upgraded.
	w.exec("UPDATE fence.issuer SET system_identifier = 7")
	if got := lock(etcd); got != "3.74" {
		t.Error("with another system identifier:", got)
	}
}

// Databases of one server have locks, counters and marks of their own.
func TestTwoDatabases(t *testing.T) {
	one, two := newWorld(t, pgtest.Shared(t)), newWorld(t, pgtest.Shared(t))
	a, b := one.client(Config{}), two.client(Config{})
	la, lb := must[*lockclient.Lease](t)(a.Lock(ctx, "same")), must[*lockclient.Lease](t)(b.TryLock(ctx, "same"))
	if la.Fence().Issuer == lb.Fence().Issuer {
		t.Error("one issuer for both:", la.Fence().Issuer)
	}
	la.Release(ctx)
	lb.Release(ctx)
}

func TestOpen(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	bare := w.c.NewDatabase(t)
	for _, tc := range []struct{ what, url, want string }{
		{"no schema", w.c.DSN(bare, "postgres"), "run fenceproxy init"},
		{"role without rights", w.c.DSN(w.db, "app"), "fence_control"},
		{"unknown option", w.c.DSN(w.db, "control") + "&colour=red", `unknown option "colour"`},
		{"unknown mode", w.c.DSN(w.db, "control") + "&mode=magic", "want lease or advisory"},
		{"option of the other mode", w.c.DSN(w.db, "control") + "&keys=pair", "go with mode=advisory"},
		{"bad duration", w.c.DSN(w.db, "control") + "&evict=-1s", "option evict"},
		{"TTL too small", w.c.DSN(w.db, "control") + "&ttl=1ms", "minimum"},
	} {
		c, err := lockclient.Open(ctx, tc.url)
		if err == nil {
			c.Close()
			t.Errorf("%s: opened", tc.what)
		} else if !contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
	c := must[*lockclient.Client](t)(lockclient.Open(ctx, w.c.DSN(w.db, "control")+"&ttl=3s&grace=1s&holder=me&evict=never"))
	defer c.Close()
	l := must[*lockclient.Lease](t)(c.Lock(ctx, "x"))
	if left := time.Until(l.ValidUntil()); left > 3*time.Second || left < 500*time.Millisecond {
		t.Error("TTL of the URL:", left)
	}
	l.Release(ctx)
}

// After a crash of the server a lease is what it was, and the queue forms again.
func TestServerCrash(t *testing.T) {
	cl := pgtest.Start(t)
	w := newWorld(t, cl)
	c := w.client(Config{}, lockclient.WithTTL(10*time.Second))
	l := must[*lockclient.Lease](t)(c.Lock(ctx, "x"))
	got := make(chan error, 1)
	var next *lockclient.Lease
	go func() {
		var err error
		next, err = c.Lock(ctx, "x")
		got <- err
	}()
	eventually(t, "queued", func() bool { return w.text("SELECT count(*) FROM fence.ticket WHERE waits") == "1" })
	cl.Kill()
	cl.Restart(t)
	w.su = cl.Connect(t, w.db, "postgres")
	eventually(t, "confirmed", func() bool { return l.Confirm(ctx) == nil })
	if err := l.Check(); err != nil {
		t.Error(err)
	}
	if err := l.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if next.Fence().Token.Compare(l.Fence().Token) <= 0 {
		t.Error("token", next.Fence().Token, "after", l.Fence().Token)
	}
	next.Release(ctx)
}

// Tokens that a crash takes back would be given twice, whatever the server's settings. Mutant "lock grant, lease table:
// durable".
func TestNoTokenTwiceAfterACrash(t *testing.T) {
	cl := pgtest.Start(t, pgtest.WithSetting("synchronous_commit", "off"), pgtest.WithSetting("wal_writer_delay", "10s"))
	w := newWorld(t, cl)
	c := w.client(Config{}, lockclient.WithTTL(time.Minute))
	for _, name := range []string{"x", "y", "z"} { // the lease of before is held still, if the crash has left it
		before := must[*lockclient.Lease](t)(c.Lock(ctx, name)).Fence().Token
		cl.Kill()
		cl.Restart(t)
		var after *lockclient.Lease
		eventually(t, "a lock after the crash", func() bool {
			var err error
			after, err = c.Lock(ctx, name+"2")
			return err == nil
		})
		if got := after.Fence().Token; got.Compare(before) <= 0 {
			t.Errorf("token %v after the crash, %v was given before it", got, before)
		}
	}
}

// A fence that gets its first mark, and a guarded transaction, while its lock is being granted: the grant begins again
// and waits. It must not hold up other locks meanwhile. Mutant "issue waits for the fence, in
// the trigger": red.
func TestFirstMarkMeanwhile(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := w.client(Config{Grace: -1})
	name := lockName()
	w.exec("INSERT INTO fence.lease (name) VALUES ('" + name + "')")
	thaw := w.freeze("SELECT FROM fence.lease WHERE name = '" + name + "' FOR UPDATE")
	got := make(chan *lockclient.Lease, 1)
	go func() {
		l, err := c.Lock(ctx, name)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	eventually(t, "it waits for the row", w.blocked)
	w.exec("SELECT fence.raise('" + name + "', 0, 5, 'x', NULL)")
	g := w.mustGuard(name, tokens.Token{Counter: 5})
	thaw()
	eventually(t, "it waits for the guarded transaction", func() bool {
		return w.text("SELECT count(*) FROM pg_locks l JOIN fence.mark m ON l.objid = m.id::oid WHERE l.classid = 1178947139 AND NOT l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())") == "1"
	})
	if m := w.mark(name); m != "5" {
		t.Error("mark:", m)
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if other, err := c.TryLock(limited, lockName()); err != nil {
		t.Error("another lock waits for this one's transactions:", err)
	} else {
		other.Release(ctx)
	}
	if err := g.tx.Commit(ctx); err != nil {
		t.Error(err)
	}
	l := <-got
	if m := w.mark(name); l == nil || m != l.Fence().Token.String() {
		t.Error("mark:", m)
	}
	l.Release(ctx)
}
