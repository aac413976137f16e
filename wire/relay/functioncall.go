package relay

import (
	"slices"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// LargeObjectFunctions are what libpq's and JDBC's interfaces to large objects call outside SQL. They write pg_largeobject
// and nothing else, and their oids are those of every database (pg_proc.dat).
var LargeObjectFunctions = []uint32{
	952,  // lo_open
	953,  // lo_close
	954,  // loread
	955,  // lowrite
	956,  // lo_lseek
	957,  // lo_creat
	958,  // lo_tell
	964,  // lo_unlink
	715,  // lo_create
	1004, // lo_truncate
	3170, // lo_lseek64
	3171, // lo_tell64
	3172, // lo_truncate64
}

var refuseFunctionCall = refusal{Error: tokens.Error{
	Code:    tokens.CodeNotAllowed,
	Message: "the function call protocol message is not allowed through this proxy for this function",
	Detail:  "Nothing can be checked in the transaction of the call.",
	Hint:    "Call the function in a SELECT, or name it in function_calls.",
}, by: ByProxy}

// clientFunctionCall deals with a call outside SQL. No guard can run in its transaction, so it passes only for functions
// that change no fenced data. A refused one becomes a Query that fails: both are answered by an error and ReadyForQuery.
func (e *Engine) clientFunctionCall(body []byte) (ok bool) {
	oid, ok := wire.DecodeFunctionCall(body)
	if !ok {
		return false
	}
	allowed := slices.Contains(e.cfg.FunctionCalls, oid)
	switch {
	case allowed && e.functionCallWithoutToken():
		e.poisonQuery(refuseTokenless)
		return true
	case e.act.pause != pauseNone:
		return true
	case allowed:
	case e.cfg.Mode == ModeObserve:
		e.observePlan(opaquePlan)
	default:
		e.poisonQuery(refuseFunctionCall)
		return true
	}
	s := e.boundary(slotFunction)
	if !allowed {
		e.lexing.sent = false
		e.sentStatement(&opaquePlan.Statements[0])
		e.noteLexing(s.segment)
	}
	e.tx.touchedBefore, e.tx.touchedNow = true, false
	return true
}
