package holding

import (
	"time"

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
	}
	return s
}

// watch keeps who holds the lock, for the words of refusals.
func (h *Holder) watch(c *lockclient.Client) {
	for h.ctx.Err() == nil {
		for l, err := range c.Observe(h.ctx, h.cfg.Lock) {
			if err != nil {
				break
			}
			h.mu.Lock()
			h.leader = l
			h.mu.Unlock()
		}
		select {
		case <-h.ctx.Done():
		case <-time.After(lastPause):
		}
	}
}
