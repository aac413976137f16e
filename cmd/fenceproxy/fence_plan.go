package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// raisePlan is what a change of a mark would do now, and to whom.
type raisePlan struct {
	Fence  string        `json:"fence"`
	From   string        `json:"from,omitempty"` // "": the fence has no mark yet
	To     string        `json:"to"`
	Raises bool          `json:"raises"` // false: it is the mark already
	Guards []blockerJSON `json:"guarded"`
	Lease  *leaseJSON    `json:"lease,omitempty"` // of the lease table, under a token that becomes stale

	mark, token tokens.Token
}

type leaseJSON struct {
	Holder string    `json:"holder"`
	Token  string    `json:"token"`
	Until  time.Time `json:"until"`
}

// planRaise looks who has the fence now. A token that cannot be raised is for the raise itself to refuse, or in a dry run
// for refusal.
func planRaise(ctx context.Context, conn *pgx.Conn, fence string, token tokens.Token) (*raisePlan, error) {
	p := &raisePlan{Fence: fence, To: token.String(), Raises: true, Guards: []blockerJSON{}, token: token}
	d, err := readFence(ctx, conn, fence)
	if err != nil {
		return nil, operatorError(err)
	}
	if d != nil {
		p.mark = tokens.Token{Epoch: d.Epoch, Counter: d.Counter}
		p.From, p.Raises = d.Token, p.mark.Compare(token) != 0
		for _, b := range d.Blockers {
			if !b.Exclusive || b.State != "active" { // else it is another raise, which waits for the same sessions
				p.Guards = append(p.Guards, b)
			}
		}
	}
	lease, err := tokens.HeldLease(ctx, conn, fence)
	if err != nil {
		return nil, operatorError(err)
	}
	if lease != nil && lease.Token.Compare(token) < 0 {
		p.Lease = &leaseJSON{lease.Holder, lease.Token.String(), lease.Until.UTC()}
	}
	return p, nil
}

// refusal says why the database would refuse the raise; the zero Error when it would not.
func (p *raisePlan) refusal() error {
	switch {
	case p.From == "" || !p.Raises:
		return nil
	case p.token.Compare(p.mark) < 0:
		return refused(operatorError(tokens.Stale(p.Fence, p.token, p.mark)))
	case p.token.Epoch != p.mark.Epoch:
		return refused(words(fmt.Sprintf("token %s of fence %q is of another epoch than the mark %s", p.token, p.Fence, p.mark), tokens.CodeMalformed, "",
			"Only an operator changes the epoch of a fence: fenceproxy fence bump-epoch."))
	}
	return nil
}

// warnings are what an operator should have read before the raise, a line each. ends says what happens to a session that
// stays in the way.
func (p *raisePlan) warnings(ends string) []string {
	if !p.Raises {
		return nil
	}
	var lines []string
	if jump := p.token.Counter - p.mark.Counter; p.From != "" && p.token.Epoch == p.mark.Epoch && jump > config.Default().AnnounceMaxJump {
		lines = append(lines, fmt.Sprintf("%s is %d above the mark %s. Is it a typo, or a timestamp? Holders of the tokens between are locked out.", p.token, jump, p.mark))
	}
	for _, g := range p.Guards {
		if g.GID != "" {
			lines = append(lines, fmt.Sprintf("Prepared transaction %q of role %s has written under the mark: it is waited for.", config.Mask(g.GID), orUnknown(g.Role)))
			continue
		}
		lines = append(lines, fmt.Sprintf("pid %d writes under the mark now: role %s, application %q, %s. %s", g.PID, orUnknown(g.Role), config.Mask(g.Application), orUnknown(g.State), ends))
	}
	if p.Lease != nil {
		lines = append(lines, fmt.Sprintf("%s holds the lock %s under token %s until %s: it is locked out.", orUnknown(p.Lease.Holder), p.Fence, p.Lease.Token, stamp(p.Lease.Until)))
	}
	return lines
}

// write is what --dry-run prints.
func (p *raisePlan) write(out io.Writer, asJSON bool, warnings []string) error {
	switch {
	case asJSON:
		return printJSON(out, p)
	case !p.Raises:
		fmt.Fprintf(out, "fence %s: the mark is %s already\n", p.Fence, p.To)
	case p.From == "":
		fmt.Fprintf(out, "fence %s: would get its first mark, %s\n", p.Fence, p.To)
	default:
		fmt.Fprintf(out, "fence %s: mark would be raised from %s to %s\n", p.Fence, p.From, p.To)
	}
	for _, line := range warnings {
		fmt.Fprintln(out, line)
	}
	return nil
}

// ask shows the warnings and wants the fence's name typed.
func (p *raisePlan) ask(cmd *cobra.Command, warnings []string) error {
	warning := fmt.Sprintf("This raises the mark of fence %s from %s to %s.", p.Fence, p.From, p.To)
	if p.From == "" {
		warning = fmt.Sprintf("This makes %s the first mark of fence %s.", p.To, p.Fence)
	}
	for _, line := range warnings {
		warning += "\n" + line
	}
	return confirm(cmd, warning, "fence", p.Fence, "nothing was raised")
}
