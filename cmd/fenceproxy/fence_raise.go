package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// raiseOptions are the flags of fence raise.
type raiseOptions struct {
	dsn     *string
	holder  string
	grace   time.Duration
	noEvict bool
	yes     bool
	dryRun  bool
	asJSON  bool
}

// ends says what happens to a session that stays in the way of the raise.
func (o *raiseOptions) ends() string {
	if o.noEvict {
		return "Its transaction is waited for."
	}
	return fmt.Sprintf("Its transaction is waited for, and its session ended after %s.", o.grace)
}

func newFenceRaise() *cobra.Command {
	var o raiseOptions
	cmd := &cobra.Command{
		Use:   "raise NAME TOKEN",
		Short: "Make a token the mark: lock out all older ones",
		Long: `raise makes TOKEN, [epoch.]counter, the mark of the fence. It waits for transactions that wrote
under an older token, says for whom, and after --grace ends their sessions. Once it returns,
no transaction with an older token commits a write. A fence without a mark gets its first one.

It asks first when the token is more than 1000000000 above the mark (a token far too high
locks out the holders until their lock service catches up, or until fence bump-epoch), and when
somebody holds the fence now: a transaction that has passed its guard, or a lease in the
database. --yes goes on without a question; --dry-run says what would happen, and to whom.

Interrupted, it gives up and says what became of it. Exit code 3: the token is stale, or not
one that can be raised, or the question was not answered.`,
		Example: `  fenceproxy fence raise billing 35 --dsn postgres://fence_ops@db/app --holder "by hand, incident 7"
  fenceproxy fence raise billing 35 --dry-run
  fenceproxy fence raise billing 1.7 --no-evict --yes`,
		Args: arguments("NAME", "TOKEN"),
	}
	o.dsn = addDSN(cmd)
	cmd.Flags().StringVar(&o.holder, "holder", "", "who holds the lock now, shown to those that are locked out")
	cmd.Flags().DurationVar(&o.grace, "grace", 10*time.Second, "how long to wait before ending the sessions in the way")
	cmd.Flags().BoolVar(&o.noEvict, "no-evict", false, "end no session, wait for as long as it takes")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "change nothing: say what would happen, and who would be cut off")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkName(cmd, args[0]); err != nil {
			return err
		}
		token, err := tokens.ParseToken(args[1])
		if err != nil {
			return usageError(cmd, fmt.Errorf("%q is not a token: want counter or epoch.counter", args[1]))
		}
		if o.grace < 0 {
			return usageError(cmd, errors.New("--grace cannot be negative; to end no session use --no-evict"))
		}
		return raise(cmd, args[0], token, &o)
	}
	return cmd
}

func raise(cmd *cobra.Command, fence string, token tokens.Token, o *raiseOptions) error {
	// Its own connection first: what is wrong with the DSN is told in words, and the waiting is watched on it.
	conn, err := connect(cmd.Context(), *o.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	plan, err := planRaise(cmd.Context(), conn, fence, token)
	if err != nil {
		return err
	}
	warnings := plan.warnings(o.ends())
	if o.dryRun {
		if err := plan.refusal(); err != nil {
			return err
		}
		return plan.write(cmd.OutOrStdout(), o.asJSON, warnings)
	}
	if len(warnings) > 0 && !o.yes && plan.refusal() == nil {
		if err := plan.ask(cmd, warnings); err != nil {
			return err
		}
	}
	// Behind the question, which Ctrl-C just ends.
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	grace := max(o.grace, 1)
	if o.noEvict {
		grace = -1
	}
	w := &raiseWatch{fence: fence, out: cmd.ErrOrStderr(), begin: time.Now()}
	watching, done := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { w.run(watching, conn) })
	mark, failure := tokens.Raise(ctx, *o.dsn, fence, token, o.holder, grace, w, nil)
	done()
	watch.Wait()
	if failure != nil && ctx.Err() != nil {
		return interrupted(*o.dsn, fence, token)
	}
	if failure != nil {
		return raiseError(failure)
	}
	return w.result(cmd.OutOrStdout(), mark, o.asJSON)
}

func raiseError(e *tokens.Error) error {
	if e.Code == tokens.CodeStale || e.Code == tokens.CodeMalformed {
		return refused(operatorError(e))
	}
	return operatorError(e)
}

// settleLimit is how long an interrupted raise is watched. The server is told to give up, but a backend that waits for a
// lock looks at its client only from time to time.
const settleLimit = 3 * time.Second

// interrupted finds out what became of a raise that was given up.
func interrupted(dsn, fence string, token tokens.Token) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleLimit)
	defer cancel()
	unsure := fmt.Errorf("interrupted: whether the mark was raised is not known; see: fenceproxy fence show %s", fence)
	conn, err := connect(ctx, dsn)
	if err != nil {
		return unsure
	}
	defer conn.Close(context.Background())
	for {
		status, err := tokens.Status(ctx, conn, fence)
		switch {
		case err != nil:
			return unsure
		case len(status) > 0 && status[0].Token.Compare(token) >= 0:
			return fmt.Errorf("interrupted, but the mark was raised: it is %s", status[0].Token)
		case len(status) == 0 || status[0].Waiting == 0:
			return errors.New("interrupted: nothing was raised")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// raiseWatch tells on the terminal what a raise waits for.
type raiseWatch struct {
	fence string
	out   io.Writer
	begin time.Time

	mu     sync.Mutex
	raised bool
	from   tokens.Token
	waited time.Duration
	ended  int
}

var _ tokens.ControlEvents = (*raiseWatch)(nil)

// quietFor is how long a raise may wait before it is worth a line; lookEvery is the pause between looks.
const (
	quietFor  = 500 * time.Millisecond
	lookEvery = time.Second
)

func (w *raiseWatch) run(ctx context.Context, conn *pgx.Conn) {
	timer := time.NewTimer(quietFor)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		blockers, err := tokens.Blockers(ctx, conn, w.fence)
		if err != nil {
			return
		}
		w.tell(blockers)
		timer.Reset(lookEvery)
	}
}

func (w *raiseWatch) tell(blockers []tokens.Blocker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waited := time.Since(w.begin).Round(100 * time.Millisecond)
	for _, b := range blockers {
		if b.Exclusive && b.State == "active" {
			continue // a raise, ours too
		}
		who := fmt.Sprintf("pid %d", b.PID)
		if b.GID != "" {
			who = fmt.Sprintf("prepared transaction %q", b.GID)
		}
		fmt.Fprintf(w.out, "waiting %s for %s: role %s, application %q, %s\n", waited, who, orUnknown(b.Role), config.Mask(b.Application), orUnknown(b.State))
	}
}

func (w *raiseWatch) Raised(_ string, _ tokens.Mark, from tokens.Token, waited time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.raised, w.from, w.waited = true, from, waited
}

func (w *raiseWatch) Evicted(_, _ string, pid int, role, state string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended++
	fmt.Fprintf(w.out, "ended pid %d: role %s, %s\n", pid, orUnknown(role), orUnknown(state))
}

func (w *raiseWatch) RaiseWaiting(string, string, time.Duration, int) {}
func (w *raiseWatch) RaiseFailed(string, string, string)              {}

func (w *raiseWatch) result(out io.Writer, m tokens.Mark, asJSON bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if asJSON {
		return printJSON(out, struct {
			Fence   string  `json:"fence"`
			Mark    string  `json:"mark"`
			Raised  bool    `json:"raised"` // false: it was the mark already
			From    string  `json:"from"`
			Seconds float64 `json:"waited_seconds"`
			Ended   int     `json:"sessions_ended"`
		}{m.Name, m.Token.String(), w.raised, w.from.String(), w.waited.Seconds(), w.ended})
	}
	if !w.raised {
		_, err := fmt.Fprintf(out, "fence %s: the mark is %s already\n", m.Name, m.Token)
		return err
	}
	_, err := fmt.Fprintf(out, "fence %s: mark raised from %s to %s\n", m.Name, w.from, m.Token)
	return err
}
