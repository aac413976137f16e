package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/tokens"
)

func newFenceList() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the fences that have a mark",
		Long: `list shows each fence's mark, who raised it, how many transactions are guarded by it now, and
how many raises wait for them.`,
		Example: `  fenceproxy fence list --dsn postgres://postgres@db/app
  PGHOST=db PGDATABASE=app fenceproxy fence list --json`,
		Args: noArguments,
	}
	dsn := addDSN(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		conn, err := connect(cmd.Context(), *dsn)
		if err != nil {
			return err
		}
		defer conn.Close(context.Background())
		all, err := tokens.Status(cmd.Context(), conn, "")
		if err != nil {
			return operatorError(err)
		}
		if asJSON {
			list := make([]fenceJSON, len(all))
			for i, s := range all {
				list[i] = toJSON(s)
			}
			return printJSON(cmd.OutOrStdout(), list)
		}
		t := table{heads: []string{"fence", "mark", "holder", "raised at", "by", "guarded", "waiting"},
			right: []bool{false, true, false, false, false, true, true}}
		for _, s := range all {
			t.add(s.Name, s.Token.String(), s.Holder, stamp(s.RaisedAt), s.RaisedBy, strconv.Itoa(s.Guarded), strconv.Itoa(s.Waiting))
		}
		return t.write(cmd.OutOrStdout())
	}
	return cmd
}
