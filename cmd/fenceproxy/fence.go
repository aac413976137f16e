package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/tokens"
)

func newFence() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence",
		Short: "Look at fences and raise their marks",
		Long: `fence shows and changes the marks of a database, the highest tokens ever raised. Listing takes a
member of fence_control, raising too, a new epoch a member of fence_operator.`,
		Example: `  fenceproxy fence list --dsn postgres://postgres@db/app
  fenceproxy fence show billing --dsn postgres://postgres@db/app`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFenceList(), newFenceShow(), newFenceRaise(), newFenceBump())
	return cmd
}

// operatorError is an error of a fence function for the terminal: message, detail and hint as PostgreSQL gave them.
func operatorError(err error) error {
	var ours *tokens.Error
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &ours):
		return words(ours.Message, ours.Code, ours.Detail, ours.Hint)
	case errors.As(err, &pg) && (pg.Code == "3F000" || pg.Code == "42P01" || pg.Code == "42883"):
		return words("the database has no fence schema, or an old one", pg.Code, "", "Run: fenceproxy init")
	case errors.As(err, &pg) && pg.Code == "42501":
		return words(pg.Message, pg.Code, pg.Detail, "The role must be a member of fence_control; fenceproxy init prints what is missing.")
	case errors.As(err, &pg):
		return words(pg.Message, pg.Code, pg.Detail, pg.Hint)
	}
	return err
}

func words(message, code, detail, hint string) error {
	text := fmt.Sprintf("%s (SQLSTATE %s)", message, code)
	if detail != "" {
		text += "\n" + detail
	}
	if hint != "" {
		text += "\n" + hint
	}
	return errors.New(text)
}

// checkName catches what can be no fence before a connection is opened for it.
func checkName(cmd *cobra.Command, name string) error {
	if err := tokens.ValidName(name); err != nil {
		return usageError(cmd, err)
	}
	return nil
}

// stamp shows a time as psql does.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05-07")
}

// fenceJSON is a mark for --json.
type fenceJSON struct {
	ID       int32     `json:"id"`
	Fence    string    `json:"fence"`
	Token    string    `json:"token"`
	Epoch    int64     `json:"epoch"`
	Counter  int64     `json:"counter"`
	Holder   string    `json:"holder"`
	RaisedAt time.Time `json:"raised_at"`
	RaisedBy string    `json:"raised_by"`
	Guarded  int       `json:"guarded"`
	Waiting  int       `json:"waiting"`
}

func toJSON(s tokens.FenceStatus) fenceJSON {
	return fenceJSON{s.ID, s.Name, s.Token.String(), s.Token.Epoch, s.Token.Counter, s.Holder, s.RaisedAt.UTC(), s.RaisedBy, s.Guarded, s.Waiting}
}
