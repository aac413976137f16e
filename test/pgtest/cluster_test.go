package pgtest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv("PGTEST_ORPHAN") != "" {
		orphan()
		return
	}
	pgtest.Main(m)
}

func TestCommittedRowsSurviveKill(t *testing.T) {
	c := pgtest.Start(t)
	db := c.NewDatabase(t)
	c.Exec(t, db, "CREATE TABLE kept (v int); INSERT INTO kept VALUES (7)")
	c.Kill()
	if _, err := pgx.Connect(context.Background(), c.DSN(db, "postgres")); err == nil {
		t.Fatal("a killed server still answers")
	}
	c.Restart(t)
	var v int
	if err := c.Connect(t, db, "postgres").QueryRow(context.Background(), "SELECT v FROM kept").Scan(&v); err != nil || v != 7 {
		t.Fatalf("v = %d, %v", v, err)
	}
}

func TestSharedAllowsPreparedTransactions(t *testing.T) {
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	c.Exec(t, db, "CREATE TABLE p (v int)")
	conn := c.Connect(t, db, "postgres")
	for _, sql := range []string{"BEGIN", "INSERT INTO p VALUES (1)", "PREPARE TRANSACTION 'x'", "ROLLBACK PREPARED 'x'"} {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func TestOwnIdentityDiffersFromTheTemplate(t *testing.T) {
	identity := func(c *pgtest.Cluster) (id string) {
		row := c.Connect(t, "postgres", "postgres").QueryRow(context.Background(), "SELECT system_identifier::text FROM pg_control_system()")
		if err := row.Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	if a, b := identity(pgtest.Shared(t)), identity(pgtest.Start(t, pgtest.WithOwnIdentity())); a == b {
		t.Fatalf("both clusters are %s", a)
	}
}

// A test binary that is killed leaves no server behind.
func TestServerEndsWithItsTestBinary(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PGTEST_ORPHAN=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	dsn, dir, _ := strings.Cut(string(buf[:n]), "\t")
	defer os.RemoveAll(dir)
	cmd.Process.Kill()
	cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := pgx.Connect(context.Background(), dsn)
		if err != nil {
			return
		}
		conn.Close(context.Background())
		if time.Now().After(deadline) {
			t.Fatal("the server outlived the test binary")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func orphan() {
	c, err := pgtest.New()
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(c.DSN("postgres", "postgres") + "\t" + c.SocketDir())
	select {}
}
