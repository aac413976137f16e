package holding

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// State is what operators are shown.
type State struct {
	Lock       string     `json:"lock"`
	Holding    bool       `json:"holding"`
	Token      string     `json:"token,omitempty"`  // of the lock, whoever holds it
	Holder     string     `json:"holder,omitempty"` // who holds it, as far as is known
	Since      *time.Time `json:"since,omitempty"`  // of this instance's tenure
	ValidUntil *time.Time `json:"valid_until,omitempty"`
	Problem    string     `json:"problem,omitempty"` // why the lock cannot be taken
}

// State is how things stand now.
func (h *Holder) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := State{Lock: h.cfg.Lock, Holder: h.leader.Holder}
	if !h.leader.Vacant() {
		s.Token = h.leader.Token.String()
	}
	if c := h.current; c != nil && c.lease.Check() == nil {
		s.Holding = true
		s.Token = c.lease.Fence().Token.String()
		until := c.lease.ValidUntil()
		s.Since, s.ValidUntil = &c.since, &until
	} else if h.err != nil {
		s.Problem = problem(h.err)
	} else if h.away != nil {
		s.Problem = problem(h.away)
	}
	return s
}

// watch keeps who holds the lock, for the words of refusals, and whether the service answers.
func (h *Holder) watch(c *lockclient.Client) {
	for h.ctx.Err() == nil {
		ctx, again := context.WithCancel(h.ctx)
		h.mu.Lock()
		h.again = again
		h.mu.Unlock()
		for l, err := range c.Observe(ctx, h.cfg.Lock) {
			if err != nil {
				h.silent(err)
				continue
			}
			h.answered(l)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lastPause):
		}
		again()
	}
}

func (h *Holder) answered(l lockclient.Leader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leader = l
	if h.away != nil {
		h.away = nil
		h.cfg.Log.Info("the lock service answers again", zap.String("lock", h.cfg.Lock))
	}
}

func (h *Holder) silent(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away == nil && h.current == nil {
		h.cfg.Log.Error("cannot ask the lock service", zap.String("lock", h.cfg.Lock), zap.Error(err))
		h.away = err
	}
}

// requeued: asking for the lock has failed, and begins again. So does watch, which may not have noticed anything: its next
// answer is news.
func (h *Holder) requeued(_ string, err error) {
	if errors.Is(err, lockclient.ErrUnavailable) {
		h.silent(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.again()
}
