package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes, documented in docs/operations.md.
const (
	exitOK      = 0
	exitFailure = 1 // the command was understood and failed
	exitUsage   = 2 // command line or configuration is wrong; nothing was done
	exitRefused = 3 // the question was answered, and the answer is no
)

// exit is an error with an exit code. Its text may be empty: then everything has been said already.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func exitCode(err error) int {
	var e *exit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	}
	return exitFailure
}

// usageError is for a wrong command line.
func usageError(cmd *cobra.Command, err error) error {
	return &exit{exitUsage, fmt.Errorf("%w\nsee %s --help", err, cmd.CommandPath())}
}

// wrongConfig is for a configuration that cannot be used.
func wrongConfig(err error) error { return &exit{exitUsage, err} }

// refused is for an answer of no.
func refused(err error) error { return &exit{exitRefused, err} }
