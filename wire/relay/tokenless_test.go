package relay

import (
	"strings"
	"testing"
)

// Where guards stand that make the transaction of a session without a token read-only. "guard" is one statement.
func TestTokenlessGuards(t *testing.T) {
	const opaque, view = "SELECT f()", "SELECT v FROM seen"
	for _, tt := range []struct {
		name            string
		token           string
		messages        string // separated by " / "
		opaqueOnly, all string
	}{
		{"a read", "", "P |" + view + " / B | / E / S", "P B E S", "P guard B E S"},
		{"opaque code", "", "P |" + opaque + " / B | / E / S", "P guard B E S", "P guard B E S"},
		{"Bind alone", "", "P |" + opaque + " / B | / S", "P guard B S", "P guard B S"},
		{"an unfenced write", "", "P |INSERT INTO log VALUES (1) / B | / E / S", "P B E S", "P guard B E S"},
		{"twice in a segment", "", "P |" + view + " / B | / E / P |" + view + " / B | / E / S", "P B E P B E S", "P guard B E P B E S"},
		{"in the next segment", "", "P a|" + view + " / B |a / E / S / B |a / E / S", "P B E S B E S", "P guard B E S guard B E S"},
		{"behind a Query", "", "Q SELECT 1 / P |" + view + " / B | / E / S", "Q(SELECT 1) P B E S", "Q(+SELECT 1) P guard B E S"},
		{"in a string", "", "Q SELECT 1; SELECT f(); COMMIT", "Q(SELECT 1; +SELECT f(); COMMIT)", "Q(+SELECT 1; +SELECT f(); COMMIT)"},
		{"settings and transactions", "", "Q BEGIN; SET x.y = 1; SAVEPOINT a; RELEASE a; COMMIT", "Q(BEGIN; SET x.y = 1; SAVEPOINT a; RELEASE a; COMMIT)", "Q(BEGIN; SET x.y = 1; SAVEPOINT a; RELEASE a; COMMIT)"},
		{"what was left to be run at COMMIT", "", "Q BEGIN; SAVEPOINT a; SELECT f(); RELEASE a; COMMIT", "Q(BEGIN; SAVEPOINT a; +SELECT f(); RELEASE a; +COMMIT)", "Q(BEGIN; SAVEPOINT a; +SELECT f(); RELEASE a; +COMMIT)"},
		{"CALL", "", "P |CALL p() / B | / E / S", "P guard B poison S", "P guard B poison S"},
		{"VACUUM", "", "Q VACUUM log", "Q(VACUUM log)", "Q(refused by fenceproxy)"},
		{"COMMIT PREPARED", "", "Q COMMIT PREPARED 'x'", "Q(COMMIT PREPARED 'x')", "Q(refused by fenceproxy)"},
		{"with a token", "34", "P |" + view + " / B | / E / S", "P B E S", "P B E S"},
		{"VACUUM with a token", "34", "Q VACUUM log", "Q(VACUUM log)", "Q(VACUUM log)"},
		{"the token may have gone", "34", "Q RESET fence.token / P |" + view + " / B | / E / S", "Q(RESET fence.token) P B E S", "Q(RESET fence.token) P guard B E S"},
		{"the token comes", "", "Q SET LOCAL fence.token = '' / P |" + view + " / B | / E / S", "Q(SET LOCAL fence.token = '') P B E S", "Q(SET LOCAL fence.token = '') P guard B E S"},
	} {
		for policy, want := range map[TokenlessPolicy]string{TokenlessOpaqueReadOnly: tt.opaqueOnly, TokenlessReadOnly: tt.all} {
			cfg := testConfig(t)
			cfg.Tokenless = policy
			c := newTalk(t, cfg, tt.token)
			got := c.client(strings.Split(tt.messages, " / ")...)
			guard := "SELECT CASE WHEN COALESCE(fence.guard_session('billing',true), '') OPERATOR(pg_catalog.~) '[0-9]' THEN '' ELSE pg_catalog.set_config('transaction_read_only', 'on', true) END;"
			same(t, tt.name, strings.ReplaceAll(got, guard, "+"), want)
		}
	}
}

// The guard counts for the rest of its transaction, and no longer.
func TestTokenlessGuardIsSkippedOnlyWhileItHolds(t *testing.T) {
	for _, tt := range []struct {
		name, query string
		reply       []string
		want        string
	}{
		{"nothing", "SET x.y = 1", []string{"C SET", "Z T"}, "P B E S"},
		{"release", "RELEASE a", []string{"C RELEASE", "Z T"}, "P guard B E S"},
		{"rollback to", "ROLLBACK TO a", []string{"C ROLLBACK", "Z T"}, "P guard B E S"},
		{"commit and chain", "COMMIT AND CHAIN", []string{"C COMMIT", "Z T"}, "P guard B E S"},
		{"the end", "COMMIT", []string{"C COMMIT", "Z I"}, "P guard B E S"},
		{"a token unseen", "UPDATE pg_settings SET setting = '' WHERE name = 'fence.token'", []string{"T", "D ", "C SELECT 1", "C UPDATE 1", "Z T"}, "P guard B E S"},
	} {
		cfg := testConfig(t)
		cfg.Tokenless = TokenlessReadOnly
		c := newTalk(t, cfg, "")
		c.client("Q BEGIN")
		c.server("C BEGIN", "Z T")
		c.client("P |"+readSQL, "B |", "E", "S")
		c.server("1", "3", "1", "2", "D on", "C SELECT 1", "3", "2", "C SELECT 1", "Z T")
		c.client("Q " + tt.query)
		c.server(tt.reply...)
		same(t, tt.name, c.client("P |"+readSQL, "B |", "E", "S"), tt.want)
	}
}
