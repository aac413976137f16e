package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/tokens"
)

func newFenceBump() *cobra.Command {
	var reason string
	var yes, dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "bump-epoch NAME --reason TEXT",
		Short: "Make every token of a fence stale, for a new start with low ones",
		Long: `bump-epoch raises the epoch of the fence by one and its counter to 0. All tokens of older epochs
are stale then, whatever their counter: for after a restore of the database, or of a lock
service that counts from the beginning again. The holders need tokens of the new epoch.

It waits for transactions that are guarded, and ends no session. The reason goes to the
history. The role must be a member of fence_operator.

It asks first; --yes goes on without a question, --dry-run says what would happen, and to whom.
Exit code 3: the fence has no mark, or the question was not answered.`,
		Example: `  fenceproxy fence bump-epoch billing --reason "etcd restored from backup" --dsn postgres://fence_ops@db/app
  fenceproxy fence bump-epoch billing --reason rehearsal --dry-run`,
		Args: arguments("NAME"),
	}
	dsn := addDSN(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history (required)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing: say what would happen, and who would be cut off")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkName(cmd, args[0]); err != nil {
			return err
		}
		if strings.TrimSpace(reason) == "" {
			return usageError(cmd, errors.New("--reason is missing: the history must say why"))
		}
		ctx := cmd.Context()
		conn, err := connect(ctx, *dsn)
		if err != nil {
			return err
		}
		defer conn.Close(context.Background())
		before, err := tokens.Status(ctx, conn, args[0])
		if err != nil {
			return operatorError(err)
		}
		if len(before) == 0 {
			return refused(fmt.Errorf("fence %s has no mark: there is nothing to bump", args[0]))
		}
		plan, err := planRaise(ctx, conn, args[0], tokens.Token{Epoch: before[0].Token.Epoch + 1})
		if err != nil {
			return err
		}
		warnings := append([]string{fmt.Sprintf("Every token of epoch %d is stale then: the holders need tokens written %d.<counter>.", plan.mark.Epoch, plan.token.Epoch)},
			plan.warnings("Its transaction is waited for.")...)
		if dryRun {
			return plan.write(cmd.OutOrStdout(), asJSON, warnings)
		}
		if !yes {
			if err := plan.ask(cmd, warnings); err != nil {
				return err
			}
		}
		// Behind the question, which Ctrl-C just ends.
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		mark, failure := tokens.BumpEpoch(ctx, conn, args[0], reason)
		if failure != nil && ctx.Err() != nil {
			return interrupted(*dsn, args[0], tokens.Token{Epoch: before[0].Token.Epoch + 1})
		}
		if failure != nil {
			return raiseError(failure)
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), struct {
				Fence string `json:"fence"`
				From  string `json:"from"`
				Mark  string `json:"mark"`
				Epoch int64  `json:"epoch"`
			}{args[0], before[0].Token.String(), mark.Token.String(), mark.Token.Epoch})
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "fence %s: epoch %d, mark raised from %s to %s; tokens are now written %d.<counter>\n",
			args[0], mark.Token.Epoch, before[0].Token, mark.Token, mark.Token.Epoch)
		return err
	}
	return cmd
}
