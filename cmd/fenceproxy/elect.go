package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

func newElect() *cobra.Command {
	var f lockFlags
	id, asJSON := "", false
	cmd := &cobra.Command{
		Use:   "elect NAME --id ID --backend URL",
		Short: "Stand for election, again and again",
		Long: `elect stands for the lock as ID and prints a line when it is elected, with the token, and one when
it is not any more. A lost election is followed by the next; a signal resigns.

Exit codes: 0 resigned; 74 output cannot be written; 75 the lock service cannot be used.`,
		Example: `  fenceproxy elect scheduler --id node-1 --backend postgres://lock@db/app
  fenceproxy elect scheduler --id node-2 --json --backend etcd://a:2379,b:2379,c:2379`,
		Args: arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args[0]); err != nil {
				return err
			}
			if id == "" {
				return usageError(cmd, errors.New("--id is missing: others must know who was elected"))
			}
			return elect(cmd, &f, args[0], id, asJSON)
		},
	}
	f.backendFlag(cmd)
	cmd.Flags().DurationVar(&f.ttl, "ttl", lockclient.DefaultTTL, "after this time without a renewal another is elected")
	cmd.Flags().StringVar(&id, "id", "", "who stands, as others see it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

// electionJSON is a line of elect --json.
type electionJSON struct {
	Lock    string `json:"lock"`
	ID      string `json:"id"`
	Elected bool   `json:"elected"`
	Token   string `json:"token"`
	Reason  string `json:"reason,omitempty"` // why not any more
}

func elect(cmd *cobra.Command, f *lockFlags, name, id string, asJSON bool) error {
	surviveClosedOutput()
	ctx, stop := untilInterrupted(cmd.Context())
	defer stop()
	client, err := f.open(ctx, cmd, lockclient.WithHolder(id))
	if err != nil {
		return err
	}
	defer client.Close()
	out := cmd.OutOrStdout()
	say := func(e electionJSON) error {
		var err error
		switch {
		case asJSON:
			err = printJSONLine(out, e)
		case e.Elected:
			_, err = fmt.Fprintf(out, "elected %s %s\n", e.Lock, e.Token)
		default:
			_, err = fmt.Fprintf(out, "ended %s %s: %s\n", e.Lock, e.Token, e.Reason)
		}
		return unwritable(err)
	}
	err = client.Campaign(ctx, name, func(ctx context.Context, l *lockclient.Lease) error {
		token := l.Fence().Token.String()
		if err := say(electionJSON{Lock: name, ID: id, Elected: true, Token: token}); err != nil {
			return err
		}
		<-ctx.Done()
		reason := "resigned"
		var lost *lockclient.LostError
		if errors.As(l.Err(), &lost) {
			reason = "lost, " + string(lost.Reason)
		}
		return say(electionJSON{Lock: name, ID: id, Token: token, Reason: reason})
	})
	var said *exit
	switch {
	case errors.As(err, &said):
		return said
	case err == nil || ctx.Err() != nil:
		return nil
	}
	return unusable(err)
}
