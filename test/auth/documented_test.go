package auth

import (
	"os"
	"regexp"
	"testing"
)

// The function of docs/deployment.md lets a role without rights look up verifiers, but not those of superusers.
func TestDocumentedQuery(t *testing.T) {
	text, err := os.ReadFile("../../docs/deployment.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sql\n(CREATE SCHEMA fence_auth;.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/deployment.md does not show the function")
	}
	w := newWorld(t)
	w.Exec(t, "postgres", "CREATE ROLE fence_proxy LOGIN PASSWORD '"+password+"'; CREATE ROLE root SUPERUSER LOGIN PASSWORD '"+password+"'")
	w.Exec(t, "postgres", string(block[1]))
	p := w.start(t, "disable", "--auth-query", "SELECT * FROM fence_auth.verifier($1)",
		"--control", login(w.Addr(), "fence_proxy", password))
	for user, want := range map[string]bool{"app": true, "forever": true, "expired": false, "nobody": false, "root": false} {
		if got, ok := viaPgx(t, login(p.Addr(), user, password)); ok != want {
			t.Errorf("%s: %s", user, got)
		}
	}
}
