package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/dbcheck"
)

// rowFences are the fences of the configuration, for --row-tokens and the triggers of row tokens.
func (o *initOptions) rowFences() ([]config.Fence, error) {
	if !o.triggers.rowTokens && !o.triggers.install {
		return nil, nil
	}
	c, _, err := config.Load(config.Source{File: o.file, Environment: os.Environ(), Flags: o.triggers.fences, Partial: true})
	if err != nil {
		return nil, wrongConfig(err)
	}
	if !o.triggers.rowTokens {
		return c.Fences, nil
	}
	for _, f := range c.Fences {
		if f.RowToken != "" {
			return c.Fences, nil
		}
	}
	if o.file == "" {
		return nil, wrongConfig(errors.New("--row-tokens needs --config FILE: only a file can give a fence its row_token"))
	}
	return nil, wrongConfig(fmt.Errorf("%s: no fence has a row_token", o.file))
}

// runRowTokens says which columns are to be added, and adds them unless it is only to be shown.
func runRowTokens(ctx context.Context, out io.Writer, conn *pgx.Conn, o *triggerOptions, fences []config.Fence, print bool) error {
	plan, err := dbcheck.PlanColumns(ctx, conn, fences)
	if err != nil {
		return err
	}
	if print {
		for _, problem := range plan.Problems {
			fmt.Fprintf(out, "-- problem: %s\n", problem)
		}
		for _, note := range plan.Notes {
			fmt.Fprintf(out, "-- note: %s\n", note)
		}
		_, err := io.WriteString(out, plan.SQL(o.wait))
		return err
	}
	switch {
	case len(plan.Adds) == 0:
		fmt.Fprintln(out, "row tokens: nothing to add")
	case o.dryRun:
		fmt.Fprintln(out, "row tokens, not done:")
	default:
		fmt.Fprintln(out, "row tokens:")
	}
	for _, add := range plan.Adds {
		fmt.Fprintf(out, "  %s\n", add)
	}
	for _, problem := range plan.Problems {
		fmt.Fprintf(out, "problem: %s\n", problem)
	}
	for _, note := range plan.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	if !o.dryRun && len(plan.Adds) > 0 {
		if err := plan.Add(ctx, conn, o.wait); err != nil {
			return err
		}
		fmt.Fprintf(out, "done: %s\n", count(len(plan.Adds), "column"))
	}
	if len(plan.Problems) > 0 {
		return refused(errors.New("init cannot change the columns that are there"))
	}
	return nil
}
