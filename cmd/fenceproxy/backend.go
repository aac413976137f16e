package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/lockclient"
	_ "github.com/fenceproxy/fenceproxy/lockclient/etcd"
	_ "github.com/fenceproxy/fenceproxy/lockclient/postgres"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// Exit codes of the commands that hold a lock: those of sysexits.h that fit, and one more. docs/run.md has them.
const (
	exitInternal    = 70 // EX_SOFTWARE
	exitOutput      = 74 // EX_IOERR
	exitNotAcquired = 75 // EX_TEMPFAIL
	exitLost        = lockclient.ExitLost
)

const backendVariable = "FENCEPROXY_BACKEND"

// lockFlags are the flags of every command that takes a lock.
type lockFlags struct {
	backend string
	ttl     time.Duration
	wait    time.Duration
	try     bool
}

func (f *lockFlags) backendFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.backend, "backend", "", // not the variable's value: help would print it, password and all
		"`URL` of the lock service, e.g. postgres://lock@db/app or etcd://host:2379 (default: $"+backendVariable+")")
}

func (f *lockFlags) add(cmd *cobra.Command) {
	f.backendFlag(cmd)
	cmd.Flags().DurationVar(&f.ttl, "ttl", lockclient.DefaultTTL, "after this time without a renewal others may take the lock")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "give up when the lock is not free within this time (default: wait for ever)")
	cmd.Flags().BoolVar(&f.try, "try", false, "do not wait at all")
}

// check completes the flags and refuses what makes no sense.
func (f *lockFlags) check(cmd *cobra.Command, name string) error {
	if f.backend == "" {
		f.backend = os.Getenv(backendVariable)
	}
	if a, err := lockclient.ParseAddress(f.backend); err == nil && !cmd.Flags().Changed("ttl") {
		if d, err := time.ParseDuration(a.Options.Get("ttl")); err == nil {
			f.ttl = d
		}
	}
	switch {
	case name == "":
		return usageError(cmd, errors.New("the name of the lock is missing"))
	case f.backend == "":
		return usageError(cmd, errors.New("--backend is missing, and $"+backendVariable+" is not set"))
	case f.try && f.wait > 0:
		return usageError(cmd, errors.New("--try does not wait, so --wait makes no sense with it"))
	case f.wait < 0:
		return usageError(cmd, errors.New("--wait cannot be negative"))
	case f.ttl <= 0:
		return usageError(cmd, errors.New("--ttl must be positive"))
	}
	if err := tokens.ValidName(name); err != nil {
		return usageError(cmd, err)
	}
	return nil
}

// openLimit bounds how long a backend is tried at the start.
const openLimit = 30 * time.Second

// open makes the lock client. A service that is not there is like a lock that cannot be had.
func (f *lockFlags) open(ctx context.Context, cmd *cobra.Command, opts ...lockclient.Option) (*lockclient.Client, error) {
	limit := openLimit
	if f.wait > 0 {
		limit = min(limit, f.wait)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if f.ttl > 0 {
		opts = append([]lockclient.Option{lockclient.WithTTL(f.ttl)}, opts...)
	}
	c, err := lockclient.Open(limited, f.backend, opts...)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, &exit{exitNotAcquired, errors.New("interrupted before the lock service answered")}
	case errors.Is(err, lockclient.ErrUnavailable), limited.Err() != nil:
		return nil, &exit{exitNotAcquired, err}
	}
	return nil, usageError(cmd, err)
}

// acquire takes the lock as the flags say.
func (f *lockFlags) acquire(ctx context.Context, c *lockclient.Client, name string) (*lockclient.Lease, error) {
	var l *lockclient.Lease
	var err error
	if f.try {
		l, err = c.TryLock(ctx, name)
	} else {
		l, err = c.Lock(ctx, name, lockclient.WithWait(f.wait))
	}
	if err == nil {
		return l, nil
	}
	var held *lockclient.HeldError
	switch {
	case ctx.Err() != nil:
		err = errors.New("interrupted while waiting for the lock")
	case errors.As(err, &held):
		err = held
	case f.wait > 0 && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lockclient.ErrUnavailable):
		err = fmt.Errorf("lock %q was not free within %v", name, f.wait)
	default:
		return nil, unusable(err)
	}
	return nil, &exit{exitNotAcquired, err}
}

// unusable is the exit of a command that the lock service refuses, now or for good.
func unusable(err error) *exit {
	code := exitUsage
	if passing(err) {
		code = exitNotAcquired
	}
	return &exit{code, errors.New(strings.ReplaceAll(err.Error(), "\n", ": "))} // joined errors are a line each
}

// passing reports whether the lock may be had another time. The rest is for good: a name or TTL that the service does not
// take, rights that are missing.
func passing(err error) bool {
	for _, e := range []error{lockclient.ErrUnavailable, lockclient.ErrLost, lockclient.ErrRegressed, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// lost is the exit of a command whose lock was lost, nil when it was not.
func lost(l *lockclient.Lease, released error) error {
	for _, err := range []error{l.Err(), released} {
		if errors.Is(err, lockclient.ErrLost) {
			return &exit{exitLost, err}
		}
	}
	return nil
}

// unwritable is the exit of a command that cannot say what it has to say; nil for nil.
func unwritable(err error) error {
	if err == nil {
		return nil
	}
	return &exit{exitOutput, fmt.Errorf("cannot write the output: %w", err)}
}

// printJSONLine prints v as one line, for output that goes on.
func printJSONLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
