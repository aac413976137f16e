package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// I5: columns are in doubt for as long as DDL may be committed, however it is run and whatever becomes of its session, and no
// longer.
func TestI5EndsOfColumnsInDoubt(t *testing.T) {
	const insert = "INSERT INTO work VALUES (1, 'S', 'N')"
	for _, mode := range rowModes {
		_, connect, direct := columnsProxy(t, mode)
		defer direct.Close(context.Background()) // with its lock, whatever else is left
		token := nextToken()
		holder, migration := connect(text(token)), connect(text(token))
		known := func() {
			t.Helper()
			eventually(t, "the columns are known", func() bool { return run(holder, insert) == "" && run(migration, insert) == "" })
			rightRows(t, direct, mode, token)
		}
		unknown := func(what string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if _, err := holder.PgConn().Exec(ctx, insert).ReadAll(); code(err) != "ZF004" {
				t.Fatalf("%s, %s: %v", mode, what, err)
			}
		}
		// DDL that a message has prepared and EXECUTE runs.
		for i, sql := range []string{"ALTER TABLE work RENAME state TO tmp", "ALTER TABLE work RENAME note TO state", "ALTER TABLE work RENAME tmp TO note", "EXECUTE d2"} {
			if _, err := migration.PgConn().Prepare(context.Background(), fmt.Sprint("d", i), sql, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, last := range []string{"EXECUTE d2", "EXECUTE d3"} {
			known()
			want(t, migration, "BEGIN; EXECUTE d0; EXECUTE d1; "+last+"; "+insert, "ZF004")
			must(t, migration, "ROLLBACK")
			looked := lookAfter(t, direct)
			must(t, migration, "BEGIN; EXECUTE d0; EXECUTE d1; "+last)
			looked()
			unknown("EXECUTE")
			want(t, migration, insert, "ZF004")
			must(t, migration, "ROLLBACK")
		}
		known()
		// DDL in a text that is too long to be read.
		must(t, migration, "BEGIN")
		looked := lookAfter(t, direct)
		if got := run(migration, `ALTER TABLE work RENAME note TO "`+strings.Repeat("n", 300<<10)+`"`); got != "" {
			t.Fatal(got)
		}
		looked()
		unknown("a long text")
		want(t, migration, insert, "ZF004")
		must(t, migration, "ROLLBACK")
		known()
		// The transaction that COMMIT AND CHAIN begins has changed nothing, but for DDL behind it.
		for _, more := range []string{"", "COMMIT AND CHAIN"} {
			must(t, migration, "BEGIN; "+swapped)
			if more == "" {
				more = "; COMMIT AND CHAIN"
				want(t, migration, swapped+more, "")
			} else {
				must(t, migration, more)
			}
			eventually(t, "known in the next transaction", func() bool { return run(holder, insert) == "" })
			looked := lookAfter(t, direct)
			must(t, migration, "COMMIT AND CHAIN; "+swapped)
			looked()
			unknown("DDL behind COMMIT AND CHAIN")
			must(t, migration, "SAVEPOINT s")
			want(t, migration, "SELECT 1/0; COMMIT AND CHAIN", "22012")
			must(t, migration, "ROLLBACK TO s")
			watchFor(t, 300*time.Millisecond, func() { unknown("COMMIT AND CHAIN that is skipped") })
			must(t, migration, "ROLLBACK")
			known()
		}
		// Who could tell when it is committed?
		for _, begin := range []string{"BEGIN; " + swapped + "; ", "BEGIN; EXECUTE d0; ", ""} {
			if begin == "" {
				must(t, migration, "BEGIN; "+swapped)
			}
			if got := run(migration, begin+"PREPARE TRANSACTION 'x'"); got != "ZF004" {
				run(direct, "ROLLBACK PREPARED 'x'")
				t.Fatalf("%s, %s: %q", mode, begin, got)
			}
			must(t, migration, "ROLLBACK")
		}
		known()
		// A client that is lost while the server is busy: that commits in the end.
		lost, err := migration.PgConn().Hijack()
		if err != nil {
			t.Fatal(err)
		}
		lost.Frontend.Send(&pgproto3.Query{String: "BEGIN; " + swapped + "; SELECT pg_advisory_xact_lock(77); COMMIT"})
		must(t, direct, "SELECT pg_advisory_lock(77)") // not in a transaction: there pg_stat_activity stays as it was first seen
		if err := lost.Frontend.Flush(); err != nil {
			t.Fatal(err)
		}
		const waiting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%lock(77); COMMIT' AND wait_event = 'advisory'"
		eventually(t, "the migration waits", func() bool { return number(t, direct, waiting) == 1 })
		looked = lookAfter(t, direct)
		lost.Conn.(*net.TCPConn).SetLinger(0)
		lost.Conn.Close()
		eventually(t, "the client is lost", func() bool { return number(t, direct, waiting) == 1 && run(holder, "SELECT 1") == "" })
		watchFor(t, 300*time.Millisecond, func() { unknown("of a lost client") })
		must(t, direct, "SELECT pg_advisory_unlock(77)")
		looked()
		eventually(t, "known when it has committed", func() bool { return run(holder, insert) == "" })
		rightRows(t, direct, mode, token)
	}
}

// watchFor calls f again and again for a while: what must not happen has no sign to wait for.
func watchFor(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		f()
	}
}
