package holding

import (
	"errors"
	"fmt"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// raiseError: the lock was had, and given back, because its token could not be made the mark.
type raiseError struct {
	token tokens.Token
	err   *tokens.Error
}

func (e *raiseError) Error() string { return fmt.Sprintf("raise token %s: %v", e.token, e.err) }
func (e *raiseError) Unwrap() error { return e.err }

// problem is what operators and clients are told of an error; the log has the error itself.
func problem(err error) string {
	var raise *raiseError
	switch {
	case errors.Is(err, lockclient.ErrRegressed):
		return "the lock service gives lower tokens than before: it has lost its history, and its epoch must be raised"
	case errors.As(err, &raise) && raise.err.Code == tokens.CodeStale:
		return "the lock service gives tokens below the mark of the fence: it has lost its history, and its epoch must be raised"
	case errors.As(err, &raise) && raise.err.Code == tokens.CodeMalformed:
		return "the token does not fit the mark of the fence"
	case errors.As(err, &raise):
		return "the token cannot be raised in the database"
	case errors.Is(err, lockclient.ErrLost):
		return "the lock is lost as soon as it is had"
	}
	if errors.Is(err, lockclient.ErrUnavailable) {
		return "the lock service cannot be asked"
	}
	return "the lock service refuses"
}
