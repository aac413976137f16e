package pgfence

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// ErrNoLease is the error for work that runs under no lease.
var ErrNoLease = errors.New("no lease in the context: use the context of lockclient.Lease.Context")

// Tokens is what work under ctx presents: the tokens of all its exclusive leases. Readers' leases are checked too, but
// their tokens are presented nowhere: readers stand side by side, so one that writes is refused with ZF002, as if without
// a lock. The error is ErrNoLease or the first lease's end, a *lockclient.LostError or lockclient.ErrReleased.
func Tokens(ctx context.Context) (tokens.List, error) {
	return list(leasesOf(ctx))
}

func leasesOf(ctx context.Context) []*lockclient.Lease {
	var leases []*lockclient.Lease
	for l := range lockclient.Leases(ctx) {
		leases = append(leases, l)
	}
	return leases
}

func list(leases []*lockclient.Lease) (tokens.List, error) {
	if len(leases) == 0 {
		return nil, ErrNoLease
	}
	var out tokens.List
	for _, l := range leases {
		if err := l.Check(); err != nil {
			return nil, err
		}
		item := l.Fence().Item()
		if _, twice := out.For(item.Fence, ""); !twice && l.Mode() == lockclient.Exclusive {
			out = append(out, item)
		}
	}
	return out, nil
}

// Note tells the leases of ctx what the database has said: an error ZF001 marks the lease lost whose token was rejected. It
// returns err. What Begin, BeginTx and Configure give does so itself.
func Note(ctx context.Context, err error) error {
	note(leasesOf(ctx), err)
	return err
}

func note(leases []*lockclient.Lease, err error) {
	message, stale := rejected(err)
	if !stale {
		return
	}
	leases = slices.DeleteFunc(slices.Clone(leases), func(l *lockclient.Lease) bool { return l.Mode() == lockclient.Shared })
	for _, l := range leases {
		if len(leases) == 1 || strings.Contains(message, `"`+l.Fence().Lock+`"`) {
			l.MarkLost(err)
		}
	}
}

// rejected reports whether err is the database's ZF001, whichever driver has brought it.
func rejected(err error) (message string, stale bool) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Message, pg.Code == tokens.CodeStale
	}
	var other interface{ SQLState() string } // lib/pq and others
	if errors.As(err, &other) {
		return err.Error(), other.SQLState() == tokens.CodeStale
	}
	return "", false
}

// setLocal presents the tokens for one transaction. A plain statement, without parameters: poolers and proxies read it.
// Names and tokens need no quoting (tokens.ValidName).
func setLocal(l tokens.List) string { return "SET LOCAL fence.token = '" + l.String() + "'" }
