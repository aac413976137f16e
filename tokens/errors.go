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

// Error is an error for the client of the proxy, in the fields of PostgreSQL's ErrorResponse: ASCII, whatever the
// client's encoding. Of the client's own text it holds at most the offending part of a token.
type Error struct {
	Code    string // SQLSTATE
	Message string
	Detail  string
	Hint    string
	Fence   string // for metrics and the log; "" when no single fence is meant
}

func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.Code + ")" }

// Stale is the ZF001 that the proxy gives from memory, worded as the database words it.
func Stale(fence string, t, mark Token) *Error {
	return &Error{Code: CodeStale, Fence: fence,
		Message: "stale fencing token for fence " + quote(fence) + ": " + t.String() + " is lower than the mark " + mark.String(),
		Hint:    hintStale}
}

// The hints of tokens/schema say the same words.
const hintStale = "Another holder has taken over. Stop this work and acquire the lock again; do not retry with this token."

func malformed(problem, part string) *Error {
	return &Error{Code: CodeMalformed, Message: problem + ": " + quote(part),
		Hint: "fence.token is a list of [name=][epoch.]counter, separated by commas, for example 34 or billing=34,jobs/42=1.7."}
}

func duplicate(fence string) *Error {
	if fence == "" {
		return &Error{Code: CodeMalformed, Message: "fence.token has more than one token without a name"}
	}
	return &Error{Code: CodeMalformed, Fence: fence, Message: "fence.token has more than one token for fence " + quote(fence)}
}

// quote shows s, which a stranger wrote: cut, and nothing but printable ASCII.
func quote(s string) string {
	cut := len(s) > maxQuoted
	if cut {
		s = s[:maxQuoted]
	}
	b := make([]byte, 0, len(s)+5)
	b = append(b, '"')
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' {
			c = '?'
		}
		b = append(b, c)
	}
	if cut {
		b = append(b, "..."...)
	}
	return string(append(b, '"'))
}
