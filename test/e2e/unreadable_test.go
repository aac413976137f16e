package e2e

import (
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/conversation"
)

// I5: text that can be read in two ways, or not at all, is guarded as a write to everything, or refused outright where
// a guard could not be put in front of each of its statements. In each of these the UPDATE runs when the text is sent
// directly.
func TestUnreadableTextIsGuarded(t *testing.T) {
	const update = "UPDATE acct SET bal = 666"
	texts := []struct{ name, set, sql string }{
		{"backslash quotes hide a statement", "SET standard_conforming_strings = off", `SELECT 'a\'' ; ` + update + `; -- '`},
		{"backslash quotes, set in the same string", "", `SET standard_conforming_strings = off; SELECT 1; ` + update},
		{"a character that ends in a backslash", "SET client_encoding = 'SJIS'", "SELECT E'\x83\\'; " + update + "; --'"},
		{"a character that ends in a quote-like byte", "SET client_encoding = 'GBK'", "SELECT E'\x81\\'; " + update + "; --'"},
		{"longer than the parser is given", "", update + " /*" + strings.Repeat("x", 300<<10) + "*/"},
		{"longer than the parser is given, without a comment", "", update + " WHERE id IN (" + strings.Repeat("1, 2, ", 60_000) + "3)"},
		{"one statement with a backslash", "SET standard_conforming_strings = off", update + ` WHERE 'a\\b' <> ''`},
		{"one statement in an encoding that hides quotes", "SET client_encoding = 'SJIS'", update + " WHERE 'x\x83\x5c' <> ''"},
		{"a long statement in front", "", "SELECT '" + strings.Repeat("x", 300<<10) + "'; " + update},
		{"deep parentheses", "", "UPDATE acct SET bal = " + strings.Repeat("(", 1500) + "666" + strings.Repeat(")", 1500)},
		{"a long sum", "", "UPDATE acct SET bal = 666" + strings.Repeat("+0", 3000)},
		{"nested comments", "", "/* /* */ SELECT 1; -- */ " + update},
		{"a comment that ends at a carriage return", "", "SELECT 1; -- x\r" + update},
		{"dollar quotes with a tag", "", "SELECT $é$ ; $é$; " + update},
		{"form feed", "", "SELECT 1;\f" + update},
	}
	c, db, p := start(t)
	direct := c.Connect(t, db, "postgres")
	for _, test := range texts {
		t.Run(test.name, func(t *testing.T) {
			ask := func(addr, token string) (sqlstate string, changed bool) {
				must(t, direct, "UPDATE acct SET bal = 0")
				params := []string{"user", user, "database", db}
				if token != "" {
					params = append(params, "fence.token", token)
				}
				client, err := conversation.Dial(addr, params...)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				m := &matrix{t: t, client: client}
				if sqlstate := m.ready(); sqlstate != "" {
					t.Fatalf("startup: %s", sqlstate)
				}
				if test.set != "" {
					m.query(test.set)
				}
				if token != "" && addr != c.Addr() {
					p.Connect(t, db, user, "acct="+text(nextToken()))
				}
				sqlstate = m.send([]string{"Query " + test.sql})
				return sqlstate, number(t, direct, "SELECT count(*) FROM acct WHERE bal = 666") > 0
			}
			if sqlstate, changed := ask(c.Addr(), ""); sqlstate != "" || !changed {
				t.Fatalf("directly: SQLSTATE %q, changed %v: this text proves nothing", sqlstate, changed)
			}
			if sqlstate, changed := ask(p.Addr(), text(nextToken())); sqlstate != "ZF001" && sqlstate != "ZF004" || changed {
				t.Errorf("stale: SQLSTATE %q, changed %v; want ZF001 or ZF004", sqlstate, changed)
			}
			if sqlstate, changed := ask(p.Addr(), ""); sqlstate != "ZF002" && sqlstate != "ZF004" || changed {
				t.Errorf("without a token: SQLSTATE %q, changed %v; want ZF002 or ZF004", sqlstate, changed)
			}
		})
	}
}
