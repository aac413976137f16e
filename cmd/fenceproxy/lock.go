package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

func newLock() *cobra.Command {
	var f lockFlags
	asJSON := false
	cmd := &cobra.Command{
		Use:   "lock NAME --backend URL",
		Short: "Hold a lock until standard input closes",
		Long: `lock takes the lock, prints its token, and holds it until standard input closes or a signal
comes. A program that reads the token from a pipe holds the lock for as long as it lives.

Exit codes: 0 released; 74 the token cannot be written; 75 not acquired; 76 lost.`,
		Example: `  fenceproxy lock billing --backend postgres://lock@db/app
  coproc LOCK { fenceproxy lock billing --wait 30s; }; read -r token <&"${LOCK[0]}"`,
		Args: arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args[0]); err != nil {
				return err
			}
			return hold(cmd, &f, args[0], asJSON)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func hold(cmd *cobra.Command, f *lockFlags, name string, asJSON bool) error {
	surviveClosedOutput()
	ctx, stop := untilInterrupted(cmd.Context())
	defer stop()
	closed := make(chan struct{})
	go func() { // a caller that has gone waits for nothing either
		io.Copy(io.Discard, cmd.InOrStdin())
		close(closed)
		stop()
	}()
	client, lease, err := take(ctx, cmd, f, name)
	if err != nil {
		select {
		case <-closed:
			return &exit{exitNotAcquired, errors.New("standard input was closed before the lock was acquired: it is held for as long as standard input is open")}
		default:
			return err
		}
	}
	defer client.Close()
	if err := printTenure(cmd.OutOrStdout(), lease, asJSON); err != nil {
		lease.Release(context.Background())
		return unwritable(err)
	}
	select {
	case <-ctx.Done():
	case <-lease.Done():
	}
	released := lease.Release(context.Background())
	if err := lost(lease, released); err != nil {
		return err
	}
	return released
}

func take(ctx context.Context, cmd *cobra.Command, f *lockFlags, name string) (*lockclient.Client, *lockclient.Lease, error) {
	client, err := f.open(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	lease, err := f.acquire(ctx, client, name)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return client, lease, nil
}

// tenureJSON is a lease for --json.
type tenureJSON struct {
	Lock    string `json:"lock"`
	Token   string `json:"token"`
	Epoch   int64  `json:"epoch"`
	Counter int64  `json:"counter"`
	Issuer  string `json:"issuer"`
}

func printTenure(out io.Writer, l *lockclient.Lease, asJSON bool) error {
	fence := l.Fence()
	if asJSON {
		return printJSONLine(out, tenureJSON{fence.Lock, fence.Token.String(), fence.Token.Epoch, fence.Token.Counter, fence.Issuer})
	}
	_, err := fmt.Fprintln(out, fence.Token)
	return err
}
