package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// leases is the backend of the lease table. What the functions do is in tokens/schema/005_lease.sql.
type leases struct {
	cfg Config
	db  *database
	hub *hub
}

func newLeases(cfg Config, db *database) *leases {
	return &leases{cfg: cfg, db: db, hub: newHub(db.config)}
}

// answer is fence.lease_answer.
type answer struct {
	state   string
	token   tokens.Token
	holder  string
	since   *time.Time
	wait    time.Duration
	ahead   int
	ticket  int64
	blocked time.Duration
}

const answerColumns = "SELECT coalesce(a.state, 'queued'), coalesce(a.epoch, 0), coalesce(a.token, 0), coalesce(a.holder, ''), a.since," +
	" coalesce(a.wait_ms, 0), coalesce(a.ahead, 0), coalesce(a.ticket, 0), coalesce(a.blocked_ms, 0) FROM "

const (
	requestSQL = answerColumns + "fence.lease_request($1::text, $2::text, $3::text, $4::int8, $5::bool) AS a"
	takeSQL    = answerColumns + "fence.lease_take($1::text, $2::text, $3::bool) AS a"
	watchSQL   = answerColumns + "fence.lease_watch($1::text, $2::text, $3::int8) AS a"
	renewSQL   = "SELECT fence.lease_renew($1::text, $2::text)"
	releaseSQL = "SELECT fence.lease_release($1::text, $2::text)"
	markSQL    = "SELECT m.epoch, m.token FROM fence.mark m WHERE m.name = $1::text"
)

func (a *answer) fields(wait, blocked *int64) []any {
	return []any{&a.state, &a.token.Epoch, &a.token.Counter, &a.holder, &a.since, wait, &a.ahead, &a.ticket, blocked}
}

// ask asks until the answer is not "again", which says that the server was promoted since the last question.
func (b *leases) ask(ctx context.Context, sql string, args ...any) (a answer, err error) {
	var wait, blocked int64
	for range 3 {
		a = answer{}
		err = b.db.row(ctx, b.db.ask, sql, args, a.fields(&wait, &blocked)...)
		a.wait, a.blocked = time.Duration(wait)*time.Millisecond, time.Duration(blocked)*time.Millisecond
		if err != nil || a.state != "again" {
			return a, err
		}
	}
	return a, fmt.Errorf("%w: the server is being promoted", lockclient.ErrUnavailable)
}

func (a *answer) leader() lockclient.Leader {
	l := lockclient.Leader{Holder: a.holder, Token: a.token}
	if a.since != nil {
		l.Since = *a.since
	}
	return l
}

// newID names a claim: nobody else can know it, so who renews or releases by it has it.
func newID() string { return rand.Text() }

func (b *leases) Request(ctx context.Context, req lockclient.Request) (lockclient.Claim, error) {
	claim := lockclient.Claim{Name: req.Name, TTL: req.TTL, Ref: newID()}
	a, err := b.ask(ctx, requestSQL, req.Name, claim.Ref, printable(req.Holder), req.TTL.Milliseconds(), req.Queue)
	if err == nil && a.state == "busy" && !req.Queue {
		return b.tryBusy(ctx, claim, a)
	}
	switch {
	case err != nil:
		b.abandon(claim)
		return lockclient.Claim{}, err
	case a.state == "held":
		claim.Held, claim.Token = true, a.token
		return claim, nil
	case !req.Queue:
		return lockclient.Claim{}, &lockclient.HeldError{Lock: req.Name, Leader: a.leader()}
	}
	return claim, nil
}

// tryBusy is for a lock that nobody holds, while transactions of an earlier holder are still open. It waits a little, and
// ends those that have been in the way for longer than the grace, so that whoever only ever tries gets on as well.
func (b *leases) tryBusy(ctx context.Context, claim lockclient.Claim, a answer) (lockclient.Claim, error) {
	limited, cancel := context.WithTimeout(ctx, claim.TTL/2)
	defer cancel()
	held, err := b.finish(limited, claim, a)
	if err == nil {
		return held, nil
	}
	b.abandon(claim)
	if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lockclient.ErrLost)) {
		return lockclient.Claim{}, fmt.Errorf("%w: transactions of an earlier holder have not ended", &lockclient.HeldError{Lock: claim.Name})
	}
	return lockclient.Claim{}, err
}

// abandon gives up in the background what a request may have left behind.
func (b *leases) abandon(claim lockclient.Claim) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), min(claim.TTL, connectTimeout))
		defer cancel()
		b.Release(ctx, claim)
	}()
}

func (b *leases) Renew(ctx context.Context, claim lockclient.Claim) (time.Duration, error) {
	var renewed bool
	if err := b.db.row(ctx, b.db.keep, renewSQL, []any{claim.Name, claim.Ref}, &renewed); err != nil {
		return 0, err
	}
	if !renewed {
		return 0, lockclient.ErrLost
	}
	return claim.TTL, nil
}

func (b *leases) Release(ctx context.Context, claim lockclient.Claim) error {
	var released bool
	err := b.db.row(ctx, b.db.keep, releaseSQL, []any{claim.Name, claim.Ref}, &released)
	if err == nil && !released {
		err = lockclient.ErrLost
	}
	return err
}

// watchFor is how long an observer is told of changes without asking again.
const watchFor = 10 * time.Second

func (b *leases) Observe(ctx context.Context, name string, yield func(lockclient.Leader) bool) error {
	watch := lockclient.Claim{Name: name, TTL: time.Second, Ref: newID()}
	defer b.abandon(watch)
	changed, stop := b.hub.watch(name)
	defer stop()
	for {
		a, err := b.ask(ctx, watchSQL, name, watch.Ref, watchFor.Milliseconds())
		if err != nil {
			return err
		}
		if !yield(a.leader()) {
			return nil
		}
		if err := b.pause(ctx, changed, a); err != nil {
			return err
		}
	}
}

func (b *leases) Capabilities() lockclient.Capabilities {
	return lockclient.Capabilities{Issuer: b.db.issuer(), Token: lockclient.Strict, FIFO: true, MinTTL: minTTL}
}

func (b *leases) Close() error {
	soon(func() {
		b.hub.close()
		b.db.close()
	})
	return nil
}

// printable is s for people, in any server encoding.
func printable(s string) string {
	const most = 200
	out := []byte(s[:min(len(s), most)])
	for i, c := range out {
		if c < ' ' || c > '~' {
			out[i] = '?'
		}
	}
	return string(out)
}
