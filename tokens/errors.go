package tokens

// SQLSTATEs of class ZF. Never 40001, which drivers retry.
const (
	CodeStale       = "ZF001" // the token is lower than the mark
	CodeRequired    = "ZF002" // the session has no token for the fence
	CodeMalformed   = "ZF003" // not a token list, an unknown fence, a bare token with several fences, a jump over the limit
	CodeNotAllowed  = "ZF004" // statement not allowed on fenced data
	CodeUnavailable = "ZF005" // the fence cannot be checked: schema missing, guard could not run
	CodeUnannounced = "ZF006" // the token is higher than the mark: never announced
)

// Error is an error for the client of the proxy, in the fields of PostgreSQL's ErrorResponse. It never holds a literal
// of the application's SQL.
type Error struct {
	Code    string // SQLSTATE
	Message string
	Detail  string
	Hint    string
	Fence   string // for metrics and the log; "" when no single fence is meant
}

func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.Code + ")" }
