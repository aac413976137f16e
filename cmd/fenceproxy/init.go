package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/tokens/triggers"
)

// initOptions are the flags of init.
type initOptions struct {
	dsn       string
	file      string
	control   string
	print     bool
	uninstall bool
	yes       bool
	triggers  triggerOptions
}

func newInit() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Install, upgrade or remove the fence schema",
		Long: `init puts the schema "fence" and its roles into the database, or upgrades them. Run again, it
changes nothing. It says what it changed, and which GRANTs the control role still needs.

The role of --dsn owns the database and has CREATEROLE, or is a superuser; with --print the
SQL is printed instead, for a DBA to run, and no database is needed. --control-role names the
role of serve's --control or --upstream DSN, whose rights are checked; with --config it is
read from there.

--triggers also puts the guard on the fenced tables themselves, their partitions and children, for
writes that no proxy sees. It says what it is going to do and does it in one transaction. Run it
again after a change of the tables or of the configuration. --remove-triggers takes them away.

--row-tokens adds the columns of row tokens (row_token in the configuration) to the tables that
lack them, as bigint NOT NULL DEFAULT 0, which rewrites no table. --dry-run shows what --triggers
and --row-tokens would do.

--uninstall removes everything, marks included. It asks first, unless --yes is given.`,
		Example: `  fenceproxy init --dsn postgres://postgres@db/app --control-role fence_proxy
  fenceproxy init --print > fence.sql
  fenceproxy init --dsn postgres://postgres@db/app --config fenceproxy.yaml
  fenceproxy init --dsn postgres://postgres@db/app --triggers --fence billing=invoices,payments
  fenceproxy init --dsn postgres://postgres@db/app --triggers --config fenceproxy.yaml --dry-run
  fenceproxy init --dsn postgres://postgres@db/app --row-tokens --config fenceproxy.yaml --dry-run
  fenceproxy init --dsn postgres://postgres@db/app --uninstall --yes`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.triggers.check(cmd, o.uninstall); err != nil {
				return usageError(cmd, err)
			}
			switch {
			case o.print && (o.triggers.install || o.triggers.remove || o.triggers.rowTokens):
				return printFromDatabase(cmd, &o)
			case o.print && o.uninstall:
				_, err := io.WriteString(cmd.OutOrStdout(), tokens.UninstallSQL())
				return err
			case o.print:
				_, err := io.WriteString(cmd.OutOrStdout(), tokens.InstallSQL())
				return err
			case o.yes && !o.uninstall:
				return usageError(cmd, errors.New("--yes goes with --uninstall"))
			}
			return runInit(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dsn, "dsn", "", "`DSN` of the database (default: PGHOST, PGDATABASE, PGUSER, ... as for psql)")
	f.StringVar(&o.file, "config", os.Getenv("FENCEPROXY_CONFIG"), "configuration `FILE`, for its control role")
	f.StringVar(&o.control, "control-role", "", "`ROLE` that the proxy raises marks with (default: that of the configuration, else that of the DSN)")
	f.BoolVar(&o.print, "print", false, "print the SQL instead of running it")
	f.BoolVar(&o.uninstall, "uninstall", false, "remove the schema and its roles")
	f.BoolVar(&o.yes, "yes", false, "do not ask before --uninstall")
	o.triggers.flags(cmd)
	return cmd
}

// printFromDatabase prints what only the database knows: which tables and partitions there are.
func printFromDatabase(cmd *cobra.Command, o *initOptions) error {
	want, err := o.wantedTriggers()
	if err != nil {
		return err
	}
	fences, err := o.rowFences()
	if err != nil {
		return err
	}
	conn, err := connect(cmd.Context(), o.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	if o.triggers.rowTokens {
		if err := runRowTokens(cmd.Context(), cmd.OutOrStdout(), conn, &o.triggers, fences, true); err != nil {
			return err
		}
	}
	if !o.triggers.install && !o.triggers.remove {
		return nil
	}
	return runTriggers(cmd.Context(), cmd.OutOrStdout(), conn, &o.triggers, want, fences, true)
}

func (o *initOptions) wantedTriggers() (want triggers.Config, err error) {
	if o.triggers.install {
		want, err = o.triggers.config(o.file, os.Environ())
	}
	return want, err
}

func runInit(cmd *cobra.Command, o *initOptions) error {
	want, err := o.wantedTriggers()
	if err != nil {
		return err
	}
	fences, err := o.rowFences()
	if err != nil {
		return err
	}
	role, err := controlRole(o.file)
	if err != nil {
		return err
	}
	if o.control != "" {
		role = o.control
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	conn, err := connect(ctx, o.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	where := conn.Config().Database
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.current_database()::text").Scan(&where); err != nil {
		return err
	}
	if o.uninstall {
		return uninstall(cmd, conn, where, o.yes)
	}
	if o.triggers.dryRun || o.triggers.remove {
		return runTables(ctx, out, conn, &o.triggers, want, fences)
	}
	report, err := tokens.Install(ctx, conn)
	if err != nil {
		return fmt.Errorf("database %s: %w", where, err)
	}
	printReport(out, where, report)
	if err := printGrants(ctx, out, conn, role); err != nil {
		return err
	}
	return runTables(ctx, out, conn, &o.triggers, want, fences)
}

// runTables changes the fenced tables: columns first, because the triggers of row tokens need them.
func runTables(ctx context.Context, out io.Writer, conn *pgx.Conn, o *triggerOptions, want triggers.Config, fences []config.Fence) error {
	if o.rowTokens {
		if err := runRowTokens(ctx, out, conn, o, fences, false); err != nil {
			return err
		}
	}
	if !o.install && !o.remove {
		return nil
	}
	return runTriggers(ctx, out, conn, o, want, fences, false)
}

// controlRole is the user of a configuration's control DSN; "" without a configuration.
func controlRole(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	c, _, err := config.Load(config.Source{File: file, Environment: os.Environ(), Partial: true})
	if err != nil {
		return "", wrongConfig(err)
	}
	if c.ControlDSN() == "" {
		return "", nil
	}
	parsed, err := pgx.ParseConfig(c.ControlDSN())
	if err != nil {
		return "", wrongConfig(config.DSNError(err))
	}
	return parsed.User, nil
}

func printReport(out io.Writer, where string, r tokens.Report) {
	if len(r.Changes) == 0 {
		fmt.Fprintf(out, "database %s: nothing to do, schema fence has version %d\n", where, r.To)
		return
	}
	fmt.Fprintf(out, "database %s:\n", where)
	for _, change := range r.Changes {
		fmt.Fprintf(out, "  %s\n", change)
	}
	for _, left := range r.Left {
		fmt.Fprintf(out, "  left: %s\n", left)
	}
}

// printGrants lists what a DBA has to add for the control role, the role of the DSN when none is configured.
func printGrants(ctx context.Context, out io.Writer, conn *pgx.Conn, role string) error {
	if role == "" {
		role = conn.Config().User
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)", role).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		_, err := fmt.Fprintf(out, "control role %s does not exist yet; create it and run init again\n", role)
		return err
	}
	grants, err := tokens.MissingGrants(ctx, conn, role)
	if err != nil {
		return err
	}
	if len(grants) == 0 {
		_, err := fmt.Fprintf(out, "control role %s has all the rights it needs\n", role)
		return err
	}
	_, err = fmt.Fprintf(out, "control role %s needs more rights; a DBA runs:\n  %s\n", role, strings.Join(grants, "\n  "))
	return err
}

func uninstall(cmd *cobra.Command, conn *pgx.Conn, where string, yes bool) error {
	installed, err := tokens.InstalledVersion(cmd.Context(), conn)
	if err != nil {
		return fmt.Errorf("database %s: %w", where, tokens.HintOwner(err))
	}
	if installed == 0 {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "database %s: nothing to do, there is no fence schema\n", where)
		return err
	}
	if !yes {
		warning := fmt.Sprintf("This removes all marks of database %s: old tokens could write again, and fenced writes through a proxy fail.", where)
		if err := confirm(cmd, warning, "database", where, "nothing was removed"); err != nil {
			return err
		}
	}
	report, err := tokens.Uninstall(cmd.Context(), conn)
	if err != nil {
		return fmt.Errorf("database %s: %w", where, err)
	}
	printReport(cmd.OutOrStdout(), where, report)
	return nil
}
