package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/dbcheck"
	"github.com/fenceproxy/fenceproxy/rewrite"
)

func newCheck() *cobra.Command {
	var dsn string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Validate a configuration file",
		Long: `check reads a configuration file without environment and flags, and shows every mistake with
its line. With --dsn it also looks into the database: do the fenced tables exist, are their
partitions named, is the fence schema the right one, has the control role its rights. It tells
for each fence its tables and their triggers, what else writes them, and what no statement's
text shows. It changes nothing.

Exit codes: 0 all is well, 2 the file is wrong, 3 the database does not fit it, 1 the
database could not be asked.`,
		Example: `  fenceproxy check fenceproxy.yaml
  fenceproxy check fenceproxy.yaml --dsn postgres://postgres@db/app`,
		Args: arguments("FILE"),
	}
	cmd.Flags().StringVar(&dsn, "dsn", "", "`DSN` of a database to compare the file with")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, _, err := config.Load(config.Source{File: args[0], Partial: true})
		if err != nil {
			return wrongConfig(err)
		}
		if _, err := rewrite.New(c.Rewrite()); err != nil {
			return wrongConfig(fmt.Errorf("%s: %w", args[0], err))
		}
		tables := 0
		for _, f := range c.Fences {
			tables += len(f.Tables)
		}
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "%s: valid; mode %s, %s, %s\n", args[0], c.Mode, count(len(c.Fences), "fence"), count(tables, "table name"))
		if c.Upstream == "" {
			fmt.Fprintln(out, "note: no upstream in the file; serve needs --upstream or FENCEPROXY_UPSTREAM")
		}
		if len(c.Fences) == 0 && c.Mode != config.ModeOff {
			fmt.Fprintln(out, "note: no fences in the file; serve needs --fence or FENCEPROXY_FENCES")
		}
		if !cmd.Flags().Changed("dsn") {
			return nil
		}
		return checkDatabase(cmd, c, dsn)
	}
	return cmd
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func checkDatabase(cmd *cobra.Command, c *config.Config, dsn string) error {
	conn, err := connect(cmd.Context(), dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	role := conn.Config().User
	if c.ControlDSN() != "" {
		parsed, err := pgx.ParseConfig(c.ControlDSN())
		if err != nil {
			return wrongConfig(config.DSNError(err))
		}
		role = parsed.User
	}
	findings, err := dbcheck.Run(cmd.Context(), conn, c.Fences, role)
	if err != nil {
		return err
	}
	description, err := dbcheck.Describe(cmd.Context(), conn, c.Fences, c.BareFence())
	if err != nil {
		return err
	}
	for _, line := range description.Lines {
		fmt.Fprintln(cmd.OutOrStdout(), line)
	}
	findings = append(findings, description.Findings...)
	for _, f := range findings {
		kind := "note"
		if f.Severity == dbcheck.Problem {
			kind = "problem"
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", kind, f.Text)
	}
	if dbcheck.Problems(findings) {
		return refused(errors.New("the database does not fit the configuration"))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "database %s: fits\n", conn.Config().Database)
	return nil
}
