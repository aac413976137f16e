package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

func newWatch() *cobra.Command {
	var f lockFlags
	asJSON := false
	cmd := &cobra.Command{
		Use:   "watch NAME --backend URL",
		Short: "Tell who holds a lock, and each change",
		Long: `watch prints who holds the lock, since when and with which token, and a line for each change;
"vacant" when nobody does. While the lock service cannot be asked it says so and goes on.
It ends with a signal.

Exit codes: 0 ended by a signal; 74 output cannot be written; 75 the lock service cannot be reached
at the start.`,
		Example: `  fenceproxy watch billing --backend postgres://lock@db/app
  fenceproxy watch billing --json --backend etcd://a:2379,b:2379,c:2379`,
		Args: arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.ttl = lockclient.DefaultTTL
			if err := f.check(cmd, args[0]); err != nil {
				return err
			}
			f.ttl = 0
			return watch(cmd, &f, args[0], asJSON)
		},
	}
	f.backendFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

// leaderJSON is a line of watch --json.
type leaderJSON struct {
	At     time.Time  `json:"at"`
	Lock   string     `json:"lock"`
	Vacant bool       `json:"vacant"`
	Holder string     `json:"holder,omitempty"`
	Token  string     `json:"token,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
}

func watch(cmd *cobra.Command, f *lockFlags, name string, asJSON bool) error {
	ctx, stop := untilInterrupted(cmd.Context())
	defer stop()
	client, err := f.open(ctx, cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	out := cmd.OutOrStdout()
	for l, err := range client.Observe(ctx, name) {
		switch {
		case errors.Is(err, lockclient.ErrUnavailable):
			fmt.Fprintf(cmd.ErrOrStderr(), "fenceproxy: %v\n", err)
			continue
		case err != nil:
			return unusable(err)
		}
		line := leaderJSON{At: time.Now().UTC(), Lock: name, Vacant: l.Vacant()}
		if !l.Vacant() {
			since := l.Since.UTC()
			line.Holder, line.Token, line.Since = l.Holder, l.Token.String(), &since
		}
		switch {
		case asJSON:
			err = printJSONLine(out, line)
		case line.Vacant:
			_, err = fmt.Fprintf(out, "%s %s vacant\n", stamp(line.At), name)
		default:
			_, err = fmt.Fprintf(out, "%s %s %s %s since %s\n", stamp(line.At), name, line.Token, orUnknown(line.Holder), stamp(l.Since))
		}
		if err != nil {
			return unwritable(err)
		}
	}
	return nil
}
