package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/dbcheck"
	"github.com/fenceproxy/fenceproxy/tokens/triggers"
)

// triggerOptions are the flags of init for triggers.
type triggerOptions struct {
	install   bool
	remove    bool
	rowTokens bool
	dryRun    bool
	always    bool
	noEvents  bool
	wait      time.Duration
	fences    *config.Flags
}

func (o *triggerOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.install, "triggers", false, "also guard the fenced tables themselves by triggers; needs --config or --fence")
	f.BoolVar(&o.remove, "remove-triggers", false, "drop the triggers from all tables")
	f.BoolVar(&o.rowTokens, "row-tokens", false, "also add the columns of row tokens to the tables that lack them; needs --config")
	f.BoolVar(&o.dryRun, "dry-run", false, "with --triggers, --row-tokens or --remove-triggers: show what would be done and do nothing")
	f.BoolVar(&o.always, "always", false, "with --triggers: they fire for replication and session_replication_role = replica too")
	f.BoolVar(&o.noEvents, "no-event-triggers", false, "with --triggers: no event triggers that guard new partitions")
	f.DurationVar(&o.wait, "lock-timeout", 5*time.Second, "with --triggers and --row-tokens: how long to wait for the writers of a table")
	o.fences = config.AddFlags(f, "fences", "bare_token")
}

// check finds flags that do not go together.
func (o *triggerOptions) check(cmd *cobra.Command, uninstall bool) error {
	changed := cmd.Flags().Changed
	switch {
	case o.install && (o.remove || uninstall) || o.remove && uninstall:
		return errors.New("--triggers, --remove-triggers and --uninstall do not go together")
	case o.rowTokens && (o.remove || uninstall):
		return errors.New("--row-tokens does not go with --remove-triggers and --uninstall")
	case o.dryRun && !o.install && !o.remove && !o.rowTokens:
		return errors.New("--dry-run goes with --triggers, --row-tokens or --remove-triggers")
	case !o.install && (o.always || o.noEvents):
		return errors.New("--always and --no-event-triggers go with --triggers")
	case !o.install && (changed("fence") || changed("bare-token")):
		return errors.New("--fence and --bare-token go with --triggers")
	case !o.install && !o.remove && !o.rowTokens && changed("lock-timeout"):
		return errors.New("--lock-timeout goes with --triggers, --row-tokens or --remove-triggers")
	case o.wait < time.Millisecond:
		return errors.New("--lock-timeout must be at least 1ms")
	}
	return nil
}

// config is what the triggers should be.
func (o *triggerOptions) config(file string, environment []string) (triggers.Config, error) {
	c, _, err := config.Load(config.Source{File: file, Environment: environment, Flags: o.fences, Partial: true})
	if err != nil {
		return triggers.Config{}, wrongConfig(err)
	}
	if len(c.Fences) == 0 {
		return triggers.Config{}, wrongConfig(errors.New("no fences: --triggers needs --fence NAME=TABLE[,TABLE...] or --config FILE"))
	}
	return triggers.Config{Fences: dbcheck.Fences(c.Fences), Bare: c.BareFence(), Always: o.always, Watch: !o.noEvents}, nil
}

// runTriggers says what is to be done, and does it unless it is only to be shown. A trigger of row tokens on a table without
// the column would fail each write, so nothing is done then; with --row-tokens the columns are there by now, or will be.
func runTriggers(ctx context.Context, out io.Writer, conn *pgx.Conn, o *triggerOptions, want triggers.Config, fences []config.Fence, print bool) error {
	var problems []string
	if o.install && !o.rowTokens {
		var err error
		if problems, err = dbcheck.ColumnProblems(ctx, conn, fences); err != nil {
			return err
		}
	}
	look := func() (*triggers.Plan, error) { return triggers.Compare(ctx, conn, want) }
	do := func() (*triggers.Plan, error) { return triggers.Install(ctx, conn, want, o.wait) }
	if o.remove {
		look = func() (*triggers.Plan, error) { return triggers.Removal(ctx, conn) }
		do = func() (*triggers.Plan, error) { return triggers.Remove(ctx, conn, o.wait) }
	}
	plan, err := look()
	if err != nil {
		return err
	}
	if print {
		for _, problem := range problems {
			fmt.Fprintf(out, "-- problem: %s\n", problem)
		}
		for _, note := range plan.Notes {
			fmt.Fprintf(out, "-- note: %s\n", note)
		}
		_, err := io.WriteString(out, plan.SQL(o.wait))
		return err
	}
	if len(plan.Steps) == 0 {
		fmt.Fprintf(out, "triggers: nothing to do, %d in place\n", inPlace(plan))
	} else if o.dryRun || len(problems) > 0 {
		fmt.Fprintln(out, "triggers, not done:")
	} else {
		fmt.Fprintln(out, "triggers:")
	}
	for _, s := range plan.Steps {
		fmt.Fprintf(out, "  %s\n", s.Text)
	}
	for _, note := range plan.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	for _, problem := range problems {
		fmt.Fprintf(out, "problem: %s\n", problem)
	}
	if len(problems) > 0 {
		return refused(errors.New("triggers of row tokens would fail each write to these tables: no trigger was changed"))
	}
	if o.dryRun || len(plan.Steps) == 0 {
		return nil
	}
	done, err := do()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "done: %s\n", count(len(done.Steps), "change"))
	return err
}

func inPlace(p *triggers.Plan) (n int) {
	for _, t := range p.Tables {
		if t.State == triggers.Present {
			n++
		}
	}
	return n
}
