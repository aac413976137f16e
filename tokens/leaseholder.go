package tokens

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lease is a lock of the lease table that somebody holds now.
type Lease struct {
	Holder string
	Token  Token
	Until  time.Time // when it expires unless it is renewed
}

// HeldLease returns the lease of the lock that is called as the fence, nil when nobody holds it.
func HeldLease(ctx context.Context, conn *pgx.Conn, name string) (*Lease, error) {
	l := &Lease{}
	err := conn.QueryRow(ctx, `SELECT coalesce(l.holder, ''), l.epoch, l.token, l.expires_at
FROM fence.lease AS l WHERE l.name = $1::text AND l.claim IS NOT NULL AND l.expires_at > clock_timestamp()`, name).
		Scan(&l.Holder, &l.Token.Epoch, &l.Token.Counter, &l.Until)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}
