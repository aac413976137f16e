package tokens

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Policy is what announces are judged by. The fields mean what they mean in ControlConfig.
type Policy struct {
	Fences  []string
	Bare    string
	Grace   time.Duration
	MaxJump int64
	Roles   []string
}

const (
	defaultGrace   = 10 * time.Second
	defaultMaxJump = 1_000_000_000
)

// Announcer announces under a policy of its own, on the connections of a Control: sessions that began under different
// configurations share marks and raises, but not what a bare token means. Safe for concurrent use.
type Announcer struct {
	control *Control
	policy  Policy
}

// Under makes an Announcer.
func (c *Control) Under(p Policy) (*Announcer, error) {
	for _, f := range p.Fences {
		if err := ValidFence(f); err != nil {
			return nil, err
		}
	}
	if p.Bare != "" && !contains(p.Fences, p.Bare) {
		return nil, errors.New("the fence of bare tokens is none of the fences: " + quote(p.Bare))
	}
	if p.Grace == 0 {
		p.Grace = defaultGrace
	}
	if p.MaxJump == 0 {
		p.MaxJump = defaultMaxJump
	}
	return &Announcer{c, p}, nil
}

// Announce makes every token of the list the mark of its fence and returns the marks in the order of the list, once
// they are durable. A token that is the mark already is told without waiting; a lower one is ZF001. ZF003: a token not
// fit for the configuration, another epoch, a jump over MaxJump, a role that may not announce. ZF005: no fence schema,
// no connection, another server or a standby behind the control DSN. When one token is refused at the first look, none
// is raised. A session in recovery announces nothing: nil, nil. A token without a name for a fence that is a pattern has no
// mark, and none is returned for it.
//
// When ctx ends first, the raise goes on without its caller: a client that retries with a short timeout meets the same
// raise again, with the same clock.
func (a *Announcer) Announce(ctx context.Context, s Session, l List) ([]Mark, *Error) {
	if s.InRecovery || len(l) == 0 {
		return nil, nil
	}
	if err := l.Check(a.policy.Fences, a.policy.Bare); err != nil {
		return nil, err
	}
	if l = a.marked(l); len(l) == 0 {
		return nil, nil
	}
	d := a.control.database(s.Database)
	marks := make([]Mark, len(l))
	wanted := make([]target, len(l))
	known := true
	for i, item := range l {
		wanted[i] = target{item.Fence, item.Token}
		if item.Fence == "" {
			wanted[i].fence = a.policy.Bare
		}
		var ok bool
		if marks[i], ok = d.remembered(wanted[i], s.SystemID); !ok {
			known = false
		}
	}
	if known {
		return marks, nil
	}
	may := a.mayAnnounce(s.User)
	if len(l) > 1 || !may {
		if err := d.firstLook(ctx, s, wanted, may); err != nil {
			return nil, err
		}
	}
	flights := make([]*flight, len(wanted))
	for i, w := range wanted {
		var err *Error
		if flights[i], err = d.raise(w, s, &a.policy); err != nil {
			return nil, err
		}
	}
	for i, f := range flights {
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, stillWaiting(f.want.fence)
		}
		if f.err != nil {
			return nil, f.err
		}
		marks[i] = f.mark
	}
	return marks, nil
}

// marked are the items that have a mark: rows may be stamped with a bare token of a pattern, and that is all it is good for.
func (a *Announcer) marked(l List) List {
	if !IsPattern(a.policy.Bare) {
		return l
	}
	return slices.DeleteFunc(slices.Clone(l), func(i Item) bool { return i.Fence == "" })
}

func (a *Announcer) mayAnnounce(user string) bool {
	return len(a.policy.Roles) == 0 || slices.Contains(a.policy.Roles, user)
}
