package verifiers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/wire"
)

const someVerifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func mustParse(t *testing.T) *wire.ScramVerifier {
	t.Helper()
	v, err := wire.ParseScramVerifier(someVerifier)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestUserlist(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		users map[string]bool // and whether they can log in
		says  string
	}{
		"empty":           {"", map[string]bool{}, ""},
		"users":           {"; comment\n\n\"a\" \"" + someVerifier + "\"\r\n\t\"b c\"\t\"md5x\"\n", map[string]bool{"a": true, "b c": false}, ""},
		"quotes":          {`"a""b" "` + someVerifier + `" rest` + "\n", map[string]bool{`a"b`: true}, ""},
		"no password":     {"\"a\"\n", nil, "line 1"},
		"no end":          {"\"a\" \"x\n", nil, "line 1"},
		"not quoted":      {"\"a\" \"\"\nb secret\n", nil, "line 2"},
		"the same, twice": {"\"a\" \"\"\n\"a\" \"" + someVerifier + "\"\n", nil, "line 2"},
	} {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := ReadUserlist(path)
		if (err == nil) != (tc.says == "") || err != nil && (!strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := map[string]bool{}
		for user, v := range list {
			got[user] = v != nil
		}
		if err == nil && fmt.Sprint(got) != fmt.Sprint(tc.users) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Names that anybody can make up take bounded memory, and none of that of users who exist.
func TestMemoryIsBounded(t *testing.T) {
	s, err := New(Config{Query: DefaultQuery, DSN: "host=127.0.0.1 port=1 sslmode=disable", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s.remember("real", answer{verifier: mustParse(t), at: time.Now()})
	for i := range 10 * maxUnknown {
		s.remember(fmt.Sprint("made up ", i), answer{at: time.Now()})
	}
	if len(s.unknown) > maxUnknown {
		t.Errorf("%d names", len(s.unknown))
	}
	if got, err := s.Verifier(context.Background(), "real"); got == nil || err != nil {
		t.Errorf("the real one is forgotten: %v", err)
	}
	if got, err := s.Verifier(context.Background(), fmt.Sprint("made up ", 10*maxUnknown-1)); got != nil || err != nil {
		t.Errorf("not remembered that there is none: %v", err)
	}
	if _, err := s.Fresh(context.Background(), "real"); err == nil {
		t.Error("a fresh answer from nobody")
	}
}

// VALID UNTIL counts at the time of the login, not of the query.
func TestRememberedVerifierExpires(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		until time.Time
		want  bool
	}{"never": {time.Time{}, true}, "later": {now.Add(time.Second), true}, "now": {now, false}, "before": {now.Add(-time.Second), false}} {
		if got := (answer{verifier: mustParse(t), until: tc.until}).valid(now); (got != nil) != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
