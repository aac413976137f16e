package conversation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// With row tokens under reject every reply is what it is without them: the same conversations, those left out that write the table
// without naming its columns.
func TestRowTokensReplyAsPostgreSQLExceptForStaleWrites(t *testing.T) {
	c := pgtest.Shared(t)
	w := NewWorld(t, c)
	c.Exec(t, w.DB, "ALTER TABLE acct ADD tok bigint NOT NULL DEFAULT 0")
	proxytest.Install(t, c.DSN(w.DB, "postgres"))
	file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
	if err := os.WriteFile(file, []byte("fences:\n  - name: acct\n    tables: [acct]\n    row_token: tok\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	session := proxytest.Start(t, c.DSN(w.DB, "postgres"), "--config", file, "--catalog", "off")
	other := proxytest.Start(t, c.DSN(w.DB, "postgres"), "--config", file, "--catalog", "off")
	w.Through(Early, session.Addr(), session.Addr())
	w.Through(Late, session.Addr(), other.Addr())
	ran := 0
	scripts(t, func(t *testing.T, s Script) {
		for _, step := range s.Steps {
			for _, m := range append(step.Send, step.Arg) {
				if strings.Contains(m, "COPY acct") || strings.Contains(m, "INSERT INTO acct") || strings.Contains(m, "* FROM acct") || strings.Contains(m, "MERGE") {
					t.Skip("depends on the table's columns")
				}
			}
		}
		ran++
		compare(t, w, s, nil, Early, Late)
	})
	if ran < 60 {
		t.Errorf("%d conversations: the test has lost its power", ran)
	}
}
