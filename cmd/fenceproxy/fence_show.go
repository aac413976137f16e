package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// recent is how much of the history is shown.
const recent = 10

// fenceDetail is all about a fence.
type fenceDetail struct {
	fenceJSON
	Blockers []blockerJSON `json:"blockers"`
	History  []changeJSON  `json:"history"`
}

type blockerJSON struct {
	PID         int        `json:"pid,omitempty"`
	GID         string     `json:"gid,omitempty"` // of a prepared transaction, which has no pid
	Role        string     `json:"role"`
	Application string     `json:"application"`
	State       string     `json:"state"`
	WaitEvent   string     `json:"wait_event,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
	Exclusive   bool       `json:"exclusive,omitempty"`
}

type changeJSON struct {
	At     time.Time `json:"at"`
	From   string    `json:"from,omitempty"`
	To     string    `json:"to"`
	Holder string    `json:"holder,omitempty"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

func newFenceShow() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a fence, who is in the way of a takeover, and its history",
		Long: `show prints a fence's mark, the transactions that a takeover would have to wait for now, and the
newest changes. The state of other roles' sessions takes pg_read_all_stats.

Exit code 3: the fence has no mark.`,
		Example: `  fenceproxy fence show billing --dsn postgres://postgres@db/app
  fenceproxy fence show jobs/42 --json`,
		Args: arguments("NAME"),
	}
	dsn := addDSN(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkName(cmd, args[0]); err != nil {
			return err
		}
		conn, err := connect(cmd.Context(), *dsn)
		if err != nil {
			return err
		}
		defer conn.Close(context.Background())
		detail, err := readFence(cmd.Context(), conn, args[0])
		if err != nil {
			return operatorError(err)
		}
		if detail == nil {
			return refused(fmt.Errorf("fence %s has no mark: no token was ever announced for it in this database", args[0]))
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), detail)
		}
		return detail.write(cmd.OutOrStdout())
	}
	return cmd
}

// readFence is nil when the fence has no mark.
func readFence(ctx context.Context, conn *pgx.Conn, name string) (*fenceDetail, error) {
	status, err := tokens.Status(ctx, conn, name)
	if err != nil || len(status) == 0 {
		return nil, err
	}
	blockers, err := tokens.Blockers(ctx, conn, name)
	if err != nil {
		return nil, err
	}
	history, err := tokens.History(ctx, conn, name, recent)
	if err != nil {
		return nil, err
	}
	d := &fenceDetail{fenceJSON: toJSON(status[0]), Blockers: []blockerJSON{}, History: []changeJSON{}}
	for _, b := range blockers {
		j := blockerJSON{PID: b.PID, GID: b.GID, Role: b.Role, Application: b.Application, State: b.State, WaitEvent: b.WaitEvent, Exclusive: b.Exclusive}
		if !b.Since.IsZero() {
			since := b.Since.UTC()
			j.Since = &since
		}
		d.Blockers = append(d.Blockers, j)
	}
	for _, c := range history {
		j := changeJSON{At: c.At.UTC(), To: c.To.String(), Holder: c.Holder, By: c.By, Reason: c.Reason}
		if c.From != nil {
			j.From = c.From.String()
		}
		d.History = append(d.History, j)
	}
	return d, nil
}

func (d *fenceDetail) write(w io.Writer) error {
	fmt.Fprintf(w, "fence:     %s\nmark:      %s\nholder:    %s\nraised at: %s by %s\nguarded:   %s now\nwaiting:   %s now\n",
		d.Fence, d.Token, orUnknown(d.Holder), stamp(d.RaisedAt), d.RaisedBy, count(d.Guarded, "transaction"), count(d.Waiting, "raise"))
	if len(d.Blockers) > 0 {
		fmt.Fprint(w, "\nA takeover waits for:\n")
		t := table{heads: []string{"pid", "role", "application", "state", "wait event", "since"}, right: []bool{true}}
		for _, b := range d.Blockers {
			pid, state, since := strconv.Itoa(b.PID), b.State, ""
			if b.GID != "" {
				pid, state = "", "prepared as "+b.GID
			}
			if b.Since != nil {
				since = stamp(*b.Since)
			}
			t.add(pid, b.Role, b.Application, state, b.WaitEvent, since)
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	fmt.Fprint(w, "\nHistory, newest first:\n")
	t := table{heads: []string{"at", "from", "to", "holder", "by", "reason"}, right: []bool{false, true, true}}
	for _, c := range d.History {
		t.add(stamp(c.At), c.From, c.To, c.Holder, c.By, c.Reason)
	}
	return t.write(w)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
