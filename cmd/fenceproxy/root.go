package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// streams are what a command reads and writes; tests bring their own.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func stdio() streams { return streams{os.Stdin, os.Stdout, os.Stderr} }

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(s.err, "fenceproxy: "+err.Error())
	}
	return exitCode(err)
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "fenceproxy",
		Short: "Fencing tokens in front of PostgreSQL",
		Long: `fenceproxy sits between applications and PostgreSQL. A session that presents a fencing
token lower than the fence's mark can no longer write fenced tables: PostgreSQL itself refuses.

Exit codes: 0 success, 1 the command failed, 2 wrong usage or configuration, 3 the answer
is no (a stale token, a check that found something). Commands that hold a lock have more.`,
		Example: `  fenceproxy init --dsn postgres://postgres@db/app
  fenceproxy serve --upstream postgres://fence@db/app --fence billing=invoices,payments
  fenceproxy fence list --dsn postgres://postgres@db/app`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(cmd, err)
	})
	root.AddCommand(newServe(), newReload(), newInit(), newFence(), newCheck(), newExplain(), newRun(), newRunGuardian(), newLock(), newElect(), newWatch(), newVersion())
	return root
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		if cmd.HasSubCommands() {
			return usageError(cmd, fmt.Errorf("unknown command %q", args[0]))
		}
		return usageError(cmd, fmt.Errorf("unexpected argument %q", args[0]))
	}
	return nil
}

// arguments demands exactly the arguments named.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usageError(cmd, fmt.Errorf("%s is missing", names[len(args)]))
		}
		if len(args) > len(names) {
			return usageError(cmd, fmt.Errorf("unexpected argument %q", args[len(names)]))
		}
		return nil
	}
}
