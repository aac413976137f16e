package memory

import (
	"context"
	"time"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// Conn is a client's way to a Server. It is a lockclient.Backend.
type Conn struct {
	server *Server

	// Link, when set, is asked for the fate of each exchange, kinds "request", "renew", "release" and, each time a
	// waiter or an observer hears of a change, "notice". Set it before use.
	Link func(kind string) Fate
}

// Fate of one exchange. A lost message is noticed by nobody: the caller waits until its context ends.
type Fate struct {
	Out, Back         time.Duration // how long the message and its reply take
	LoseOut, LoseBack bool
	Fail              bool // the caller is told at once that the service is not available; the server hears nothing
}

// Connect makes a Conn.
func (s *Server) Connect() *Conn { return &Conn{server: s} }

func (c *Conn) fate(kind string) Fate {
	if c.Link == nil {
		return Fate{}
	}
	return c.Link(kind)
}

func pass(ctx context.Context, d time.Duration, lose bool) error {
	if lose {
		<-ctx.Done()
	}
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// exchange runs f at the server, also when the caller gives up while the message is on its way. A claim whose reply is lost
// stays until its TTL has passed.
func exchange[T any](ctx context.Context, c *Conn, kind string, f func() (T, error)) (T, error) {
	var zero T
	fate := c.fate(kind)
	switch {
	case fate.Fail:
		return zero, lockclient.ErrUnavailable
	case ctx.Err() != nil:
		return zero, ctx.Err()
	case fate.LoseOut:
		return zero, pass(ctx, 0, true)
	}
	type reply struct {
		value T
		err   error
	}
	replied := make(chan reply, 1)
	serve := func() {
		value, err := f()
		replied <- reply{value, err}
	}
	if fate.Out == 0 {
		serve()
	} else {
		time.AfterFunc(fate.Out, serve)
	}
	select {
	case r := <-replied:
		if err := pass(ctx, fate.Back, fate.LoseBack); err != nil {
			return zero, err
		}
		return r.value, r.err
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

func (c *Conn) Request(ctx context.Context, req lockclient.Request) (lockclient.Claim, error) {
	return exchange(ctx, c, "request", func() (lockclient.Claim, error) {
		claim, token, err := c.server.request(req)
		if err != nil {
			return lockclient.Claim{}, err
		}
		out := lockclient.Claim{Name: req.Name, Mode: req.Mode, Held: claim.Held, Token: token, TTL: req.TTL, Ref: claim.ID}
		if !claim.Held {
			out.Token = tokens.Token{}
		}
		return out, nil
	})
}

func (c *Conn) Wait(ctx context.Context, claim lockclient.Claim) (lockclient.Claim, error) {
	id := claim.Ref.(int64)
	for {
		epoch, held, gone, changed := c.server.state(claim.Name, id)
		if held || gone {
			fate := c.fate("notice")
			if err := pass(ctx, fate.Out+fate.Back, fate.LoseOut || fate.LoseBack); err != nil {
				return claim, err
			}
			if gone {
				return claim, lockclient.ErrLost
			}
			claim.Held, claim.Token = true, tokens.Token{Epoch: epoch, Counter: id}
			return claim, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return claim, ctx.Err()
		}
	}
}

func (c *Conn) Renew(ctx context.Context, claim lockclient.Claim) (time.Duration, error) {
	return exchange(ctx, c, "renew", func() (time.Duration, error) { return c.server.renew(claim.Ref.(int64)) })
}

func (c *Conn) Release(ctx context.Context, claim lockclient.Claim) error {
	_, err := exchange(ctx, c, "release", func() (struct{}, error) { return struct{}{}, c.server.release(claim.Ref.(int64)) })
	return err
}

func (c *Conn) Observe(ctx context.Context, name string, yield func(lockclient.Leader) bool) error {
	for {
		leader, changed := c.server.leader(name)
		if fate := c.fate("notice"); fate.Fail {
			return lockclient.ErrUnavailable
		} else if err := pass(ctx, fate.Out+fate.Back, fate.LoseOut || fate.LoseBack); err != nil {
			return err
		}
		if !yield(leader) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Capabilities of the model: strict, first in first out, shared locks, any TTL.
func (c *Conn) Capabilities() lockclient.Capabilities {
	return lockclient.Capabilities{Issuer: c.server.issuer, Token: lockclient.Strict, FIFO: true, Shared: true, MinTTL: time.Millisecond}
}

// Close does nothing.
func (c *Conn) Close() error { return nil }
