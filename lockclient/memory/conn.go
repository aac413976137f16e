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

// exchange runs f at the server, and there it runs even when the caller has given up while the message was on its way.
func exchange[T any](ctx context.Context, c *Conn, kind string, f func() (T, error), undo func(T)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	var zero T
	fate := c.fate(kind)
	if fate.Fail {
		return zero, lockclient.ErrUnavailable
	}
	if ctx.Err() != nil {
		return zero, ctx.Err()
	}
	if fate.Out == 0 && !fate.LoseOut {
		value, err := f()
		if e := pass(ctx, fate.Back, fate.LoseBack); e != nil {
			if err == nil && undo != nil {
				undo(value)
			}
			return zero, e
		}
		return value, err
	}
	if fate.LoseOut {
		return zero, pass(ctx, 0, true)
	}
	replied := make(chan reply, 1)
	go func() {
		time.Sleep(fate.Out)
		value, err := f()
		if err == nil && undo != nil && ctx.Err() != nil {
			undo(value)
		}
		replied <- reply{value, err}
	}()
	select {
	case r := <-replied:
		if e := pass(ctx, fate.Back, fate.LoseBack); e != nil {
			if r.err == nil && undo != nil {
				undo(r.value)
			}
			return zero, e
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
	}, func(claim lockclient.Claim) { c.server.release(claim.Ref.(int64)) })
}

func (c *Conn) Wait(ctx context.Context, claim lockclient.Claim) (lockclient.Claim, error) {
	id := claim.Ref.(int64)
	for {
		held, gone, changed := c.server.state(claim.Name, id)
		if held || gone {
			fate := c.fate("notice")
			if err := pass(ctx, fate.Out+fate.Back, fate.LoseOut || fate.LoseBack); err != nil {
				return claim, err
			}
			if gone {
				return claim, lockclient.ErrLost
			}
			e := c.server.epochOf(id)
			claim.Held, claim.Token = true, tokens.Token{Epoch: e, Counter: id}
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
	return exchange(ctx, c, "renew", func() (time.Duration, error) { return c.server.renew(claim.Ref.(int64)) }, nil)
}

func (c *Conn) Release(ctx context.Context, claim lockclient.Claim) error {
	_, err := exchange(ctx, c, "release", func() (struct{}, error) { return struct{}{}, c.server.release(claim.Ref.(int64)) }, nil)
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
