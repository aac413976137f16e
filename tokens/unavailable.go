package tokens

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

// unavailable logs what went wrong and words it for the client.
func (d *database) unavailable(fence string, err error) *Error {
	e := FromDatabase(fence, err)
	switch {
	case e.Code != CodeUnavailable:
	case sqlstate(err) == "42501":
		d.control.cfg.Log.Error("the control role lacks a right", zap.String("database", d.name), zap.String("fence", fence),
			zap.String("grant", d.control.grant()), zap.Error(err))
	default:
		d.control.cfg.Log.Error("control connection", zap.String("database", d.name), zap.String("fence", fence), zap.Error(err))
	}
	return e
}

// grant is what a DBA runs so that the control role may raise.
func (c *Control) grant() string {
	return "GRANT fence_control TO " + pgx.Identifier{c.base.User}.Sanitize() + ";"
}

// FromDatabase turns an error of a fence function, or of the way to it, into one for the client. Errors of class ZF are
// passed on; everything else is ZF005 in words of our own, for the client is not to see what the control connection
// said: that is for the log.
func FromDatabase(fence string, err error) *Error {
	e := &Error{Code: CodeUnavailable, Fence: fence, Message: "fence " + quote(fence) + " is not available"}
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		e.Message += ": the database cannot be reached on the control connection"
		e.Hint = "The log of fenceproxy has the reason."
		return e
	}
	if strings.HasPrefix(pe.Code, "ZF") {
		return &Error{Code: pe.Code, Message: pe.Message, Detail: pe.Detail, Hint: pe.Hint, Fence: fence}
	}
	switch pe.Code {
	case "3F000", "42P01", "42883", "42703":
		e.Message += ": the database has no fence schema, or an old one"
		e.Hint = "An operator runs: fenceproxy init."
	case "42501":
		e.Message += ": the control role lacks a privilege"
		e.Hint = "An operator grants it fence_control; fenceproxy init prints what is missing."
	case "25006":
		e.Message += ": the control connection leads to a standby"
		e.Hint = "The control DSN must lead to the primary."
	default:
		e.Message += ": the control connection failed"
		e.Hint = "The log of fenceproxy has the reason."
	}
	return e
}

func stillWaiting(fence string) *Error {
	return &Error{Code: CodeUnavailable, Fence: fence,
		Message: "fence " + quote(fence) + " is being taken over: transactions of the old holder have not ended yet",
		Hint:    "Try again: the takeover goes on meanwhile."}
}

// staleSince is what fence.stale says in the database.
func staleSince(fence string, t, mark Token, since, holder string) *Error {
	e := Stale(fence, t, mark)
	if holder == "" {
		holder = "unknown"
	} else {
		holder = quote(holder)
	}
	e.Detail = "Fence " + quote(fence) + ": token of the session " + t.String() + ", mark " + mark.String() + " since " + since + ", holder " + holder + "."
	return e
}
