package e2e

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// replication: allow passes a physical replication connection untouched: pg_basebackup makes a standby through the
// proxy. On that standby nothing is announced: a session with any token may read, and writes get PostgreSQL's own error.
func TestStandbyIsMadeThroughTheProxyAndAnnouncesNothing(t *testing.T) {
	c := pgtest.Start(t)
	if _, err := os.Stat(c.Program("pg_basebackup")); err != nil {
		t.Skip("no pg_basebackup of this version")
	}
	db := fenced(t, c)
	file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
	if err := os.WriteFile(file, []byte("replication: allow\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--config", file, "--fence", "acct=acct")
	p.Connect(t, db, user, "34")
	through := (&url.URL{Scheme: "postgres", User: url.User("postgres"), Host: p.Addr(), RawQuery: "sslmode=disable"}).String()
	standby := pgtest.Start(t, pgtest.WithBackupOf(through, c))

	reader := proxytest.Start(t, standby.DSN(db, "postgres"), "--control", c.DSN(db, "postgres"), "--fence", "acct=acct")
	for _, token := range []string{"33", "34", "35", ""} {
		conn := reader.Connect(t, db, user, token)
		want(t, conn, "SELECT count(*) FROM acct", "")
		if got := run(conn, "UPDATE acct SET bal = 1"); got != "25006" && got != "ZF001" && got != "ZF002" && got != "ZF006" {
			t.Errorf("token %q: a write on a standby: SQLSTATE %q", token, got)
		}
	}
	if mark := number(t, c.Connect(t, db, "postgres"), "SELECT token FROM fence.mark"); mark != 34 {
		t.Errorf("a session on the standby raised the mark to %d", mark)
	}
	want(t, reader.Connect(t, db, user, "34"), "UPDATE acct SET bal = 1", "25006")
}
