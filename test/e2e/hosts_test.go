package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// Several hosts in the upstream DSN: sessions, cancel requests and raises follow the primary when a standby takes its place,
// and a token that was stale before is stale behind it.
func TestFailoverBetweenTwoHosts(t *testing.T) {
	c := pgtest.Start(t)
	if _, err := os.Stat(c.Program("pg_basebackup")); err != nil {
		t.Skip("no pg_basebackup of this version")
	}
	db := fenced(t, c)
	standby := pgtest.Start(t, pgtest.WithBackupOf(c.DSN("postgres", "postgres"), c))
	hosts := func(target string) string {
		return fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%d,%d user=postgres dbname=%s sslmode=disable target_session_attrs=%s", standby.Port(), c.Port(), db, target)
	}
	port := func(conn *pgx.Conn) int { return int(number(t, conn, "SELECT inet_server_port()")) }
	writer := proxytest.Start(t, hosts("read-write"), "--fence", "acct=acct")
	reader := proxytest.Start(t, hosts("standby"), "--control", c.DSN(db, "postgres"), "--fence", "acct=acct")

	holder := writer.Connect(t, db, user, "34")
	if got := port(holder); got != c.Port() {
		t.Fatalf("sessions go to port %d, the primary has %d", got, c.Port())
	}
	want(t, holder, "UPDATE acct SET bal = 34", "")
	if got := port(reader.Connect(t, db, user, "")); got != standby.Port() {
		t.Errorf("readers go to port %d, the standby has %d", got, standby.Port())
	}
	cancelled(t, holder)
	replica := standby.Connect(t, db, "postgres")
	eventually(t, "the standby has the mark and the write", func() bool {
		return number(t, replica, "SELECT count(*) FROM fence.mark m, acct a WHERE m.token = 34 AND a.bal = 34") > 0
	})

	c.Kill()
	if _, err := replica.Exec(context.Background(), "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	var next *pgx.Conn
	eventually(t, "a session on the new primary", func() bool {
		conn, err := writer.TryConnect(db, user, "35")
		next = conn
		return err == nil
	})
	defer next.Close(context.Background())
	if got := port(next); got != standby.Port() {
		t.Errorf("sessions go to port %d, the new primary has %d", got, standby.Port())
	}
	want(t, next, "UPDATE acct SET bal = 35", "")
	cancelled(t, next)
	if _, err := writer.TryConnect(db, user, "34"); code(err) != "ZF001" {
		t.Errorf("the old token: %v", err)
	}
	if mark := number(t, replica, "SELECT token FROM fence.mark"); mark != 35 {
		t.Errorf("mark %d", mark)
	}
	eventually(t, "the reader, whose answer of a moment ago still counted, says that no standby is left", func() bool {
		conn, err := reader.TryConnect(db, user, "")
		if err == nil {
			conn.Close(context.Background())
		}
		return code(err) == "57P03"
	})
}

// cancelled has a statement of the session ended by a cancel request.
func cancelled(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan string, 1)
	go func() { ended <- run(conn, "SELECT pg_sleep(30)") }()
	for {
		if err := conn.PgConn().CancelRequest(ctx); err != nil {
			t.Errorf("cancel: %v", err)
		}
		select {
		case got := <-ended:
			if got != "57014" {
				t.Errorf("cancelled statement: %q", got)
			}
			return
		case <-time.After(100 * time.Millisecond): // it had not begun
		}
	}
}
