package torture

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// tenure is what an actor believes to have: the lock, and all that it has read since.
type tenure struct {
	token string
	lease *lockclient.Lease // nil: from the counter

	el       int64 // newest element of the chain
	balances [accounts]int64
	gen      int64
	list     []int64
}

// acquire takes the lock of the actor's fence. An error means that there was none to have in time.
func (a *actor) acquire(ctx context.Context) (*tenure, error) {
	if a.issue != nil {
		return &tenure{token: decimal(a.issue(a.Fence))}, nil
	}
	if a.Service == direct {
		t := &tenure{}
		var n int64
		err := a.onServer(ctx, func(c *pgx.Conn) error {
			return c.QueryRow(ctx, "UPDATE public.issuer SET n = n + 1 WHERE fence = $1 RETURNING n", a.Fence).Scan(&n)
		})
		t.token = decimal(n)
		return t, err
	}
	client, err := a.client(a.Service)
	if err != nil {
		return nil, err
	}
	// Not under ctx, which would end the lease at the end of the schedule: a zombie goes on.
	wait := time.Millisecond
	if end, ok := ctx.Deadline(); ok {
		wait = max(wait, time.Until(end))
	}
	lease, err := client.Lock(context.Background(), a.Fence, lockclient.WithWait(wait))
	if err != nil {
		return nil, err
	}
	return &tenure{token: lease.Fence().Token.String(), lease: lease}, nil
}

func (t *tenure) release() {
	if t.lease != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		t.lease.Release(ctx)
	}
}

// onServer uses the actor's direct connection.
func (a *actor) onServer(ctx context.Context, f func(*pgx.Conn) error) (err error) {
	if a.server == nil || a.server.IsClosed() {
		if a.server, err = pgx.Connect(ctx, a.worker.Server); err != nil {
			a.server = nil
			return err
		}
	}
	return f(a.server)
}
