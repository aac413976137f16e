package drivers

// The old holder's token is 10, the new one's 20; 15 is in between and stale from the beginning.
const (
	done  = "00000"
	stale = "ZF001"
)

type check struct{ name, want string }

// checks is what each program reports, in this order, and with which result.
var checks = []check{
	{"no token", "ZF002"},      // a session without a token writes,
	{"token by SET", done},     // presents one, and writes
	{"token at connect", "10"}, // current_setting('fence.token') of a session that presented its token at startup
	{"write", done},            // without preparing; with no parameters, where the driver knows the difference
	{"prepared write", done},   // prepared, executed three times
	{"commit", done},           // in a transaction
	{"rollback", done},         // in a transaction that is rolled back
	{"copy in", done},          //
	{"copy out", "write"},      // the row of the check "write"
	{"pipeline", done},         // a query, a write and a query without waiting for replies
	{"cancel", "57014"},        // of a statement that runs
	{"takeover", "20"},         // current_setting of the new holder, which presented its token at startup
	{"stale write", stale},
	{"stale prepared write", stale}, // of the statement prepared before
	{"stale transaction", stale},
	{"behind the refusal", "25P02"}, // the next statement of that transaction
	{"stale copy in", stale},
	{"stale pipeline", stale},
	{"stale SET", stale},           // a session without a token presents 15
	{"stale connect", stale},       // so does one at startup
	{"usable after refusal", "42"}, // SELECT 42 on the old holder's session
	{"new holder's write", done},
}

// written is what the fenced table holds at the end, by the driver's checks: how often, and with which token.
var written = map[string]struct {
	times int
	token string
}{
	"token by SET":       {1, "10"},
	"write":              {1, "10"},
	"prepared write":     {3, "10"},
	"commit":             {1, "10"},
	"copy in":            {2, "10"},
	"pipeline":           {1, "10"},
	"new holder's write": {1, "20"},
}
