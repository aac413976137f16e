package rewrite

import (
	"strings"
	"testing"
)

// I5: what cannot be read for certain is unknown. The first four texts run a DELETE on a server with those settings.
func TestI5UnreadableTextIsUnknown(t *testing.T) {
	sjis := Settings{UnsafeEncoding: true}
	backslash := Settings{BackslashQuotes: true}
	long := strings.Repeat("a", 300<<10)
	for _, tt := range []struct {
		name, sql string
		s         Settings
		want      string
	}{
		{"backslash hides a quote", `SELECT 'a\', 'b; DELETE FROM victim WHERE i=1; --'`, backslash, failBackslash},
		{"backslash, E string", `SELECT E'a\', 'b; DELETE FROM victim WHERE i=1; --'`, backslash, failBackslash},
		{"SJIS trail byte is a backslash", "SELECT E'\x95\\'; DELETE FROM victim; --'", sjis, failEncoding},
		{"high bytes in an unsafe encoding", "SELECT 'ä'", sjis, failEncoding},
		{"ASCII in an unsafe encoding", `SELECT E'\\'`, sjis, ""},
		{"no backslash", `SELECT 'a', E'b'`, backslash, ""},
		{"unicode escapes need standard strings", `SELECT U&'a'`, backslash, failBackslash},
		{"unicode identifier does not", `SELECT U&"a"`, backslash, ""},
		{"backslash as designed", `SELECT 'a\', 'b; DELETE FROM accounts; --'`, Settings{}, ""},
		{"invalid UTF-8", "SELECT '\xff'", Settings{}, failUTF8},
		{"invalid UTF-8 in a comment", "SELECT 1 -- \xff", Settings{}, failUTF8},
		{"half a character", "SELECT '\xc3'", Settings{}, failUTF8},
		{"NUL", "SELECT 1\x00; DELETE FROM accounts", Settings{}, failNUL},
		{"NUL in a string", "SELECT '\x00'", Settings{}, failNUL},
		{"syntax error", "SELEC 1", Settings{}, failSyntax},
		{"psql variable", "SELECT :x", Settings{}, failSyntax},
		{"newer grammar: PG 18", "UPDATE accounts SET a = 1 RETURNING WITH (OLD AS o) o.a", Settings{}, failSyntax},
		{"newer grammar: PG 19", "INSERT INTO t VALUES (1) ON CONFLICT DO SELECT RETURNING a", Settings{}, failSyntax},
		{"one statement of two", "SELECT 1; SELEC 2", Settings{}, failSyntax},
		{"server joins, libpg_query does not", "SELECT 'a'\n-- c\n'b'", Settings{}, string(lexStringComment)},
		{"letters behind a number, alias before PG 15", "SELECT 1a", Settings{}, string(lexNumber)},
		{"letters behind a parameter", "SELECT $1a", Settings{}, string(lexNumber)},
		{"control character", "SELECT 1 \x01", Settings{}, string(lexCharacter)},
		{"open string", "SELECT 'a", Settings{}, string(lexOpenString)},
		{"open comment", "SELECT 1 /* /* */", Settings{}, string(lexOpenComment)},
		{"operator of 64 characters", "SELECT 1 " + strings.Repeat("@", 64) + " 2", Settings{}, string(lexOperator)},
		{"too deep", "SELECT 1" + strings.Repeat("+1", 24000), Settings{}, failDeep},
		{"too long", `SELECT "` + long + `"`, Settings{}, failLong},
		{"too many tokens", "SELECT " + strings.Repeat("a,", 200000) + "a", Settings{}, failLong},
		{"long literals are not text", "SELECT '" + long + "', E'" + long + "', $$" + long + "$$, B'" + strings.Repeat("1", 300<<10) + "'", Settings{}, ""},
		{"long comments neither", "SELECT 1 /*" + long + "*/", Settings{}, ""},
		{"byte order mark is a letter", "\ufeffSELECT 1", Settings{}, failSyntax},
	} {
		a := newAnalyzer(t, fencesByName)
		var sc Scratch
		for range 2 {
			an := a.Analyze(&sc, []byte(tt.sql), tt.s)
			if an.Failure != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, an.Failure, tt.want)
			}
			checkPlan(t, a, tt.name, an)
		}
		// a plan that was cached under safe settings must not serve unsafe ones, and the other way round
		before := a.Analyze(&sc, []byte(tt.sql), Settings{}).Failure
		for _, s := range []Settings{sjis, backslash, {}} {
			a.Analyze(&sc, []byte(tt.sql), s)
		}
		if after := a.Analyze(&sc, []byte(tt.sql), Settings{}).Failure; after != before {
			t.Errorf("%s: %q after other settings, before %q", tt.name, after, before)
		}
		if got := a.Analyze(&sc, []byte(tt.sql), tt.s).Failure; got != tt.want {
			t.Errorf("%s: %q after other settings", tt.name, got)
		}
	}
}

// Nothing that a client wrote may reach a log through Failure.
func TestFailureHoldsNoLiteral(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for _, sql := range []string{"SELECT 'secret", "secret", "SELECT secret secret secret", "SELECT $secret", "SELECT 1 'secret' 'secret'"} {
		if an := a.Analyze(&sc, []byte(sql), Settings{}); an.Failure == "" || strings.Contains(an.Failure, "secret") {
			t.Errorf("%s: %q", sql, an.Failure)
		}
	}
}
