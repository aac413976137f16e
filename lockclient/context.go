package lockclient

import (
	"context"
	"iter"
)

type leaseKey struct{}

// FromContext returns the innermost lease whose Context ctx derives from, nil when there is none. The lease may be lost
// or released: Check it.
func FromContext(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// Leases are all leases whose Context ctx derives from, innermost first: work under several locks presents the tokens
// of all.
func Leases(ctx context.Context) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for l := FromContext(ctx); l != nil && yield(l); l = l.outer {
		}
	}
}

// nested reports whether ctx runs under a lease of this very lock that has not ended: asking again would wait for itself.
func nested(ctx context.Context, issuer, name string) bool {
	for l := range Leases(ctx) {
		if l.fence.Issuer == issuer && l.fence.Lock == name && l.Err() == nil {
			return true
		}
	}
	return false
}
