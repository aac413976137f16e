package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// swapped lets the names of two columns change places: an INSERT without a list of columns goes on to write the first and
// the second column, whatever they are called.
const swapped = "ALTER TABLE work RENAME state TO tmp; ALTER TABLE work RENAME note TO state; ALTER TABLE work RENAME tmp TO note"

// columnsProxy has a fence on work (id, state, note, tok).
func columnsProxy(t *testing.T, mode string) (p *proxytest.Proxy, connect func(token string) *pgx.Conn, direct *pgx.Conn) {
	c, db, p := rowProxy(t, "work", "on_stale: "+mode)
	direct = c.Connect(t, db, "postgres")
	must(t, direct, "ALTER TABLE work DROP tok, ADD note text, ADD tok bigint NOT NULL DEFAULT 0, DROP CONSTRAINT work_pkey")
	return p, func(token string) *pgx.Conn { return p.Connect(t, db, user, token) }, direct
}

// rightRows: every row of an INSERT of (id, 'S', 'N') has these in its second and third column, whatever their names are,
// and the token.
func rightRows(t *testing.T, direct *pgx.Conn, what string, token int64) {
	t.Helper()
	var second string
	if err := direct.QueryRow(context.Background(), "SELECT attname FROM pg_attribute WHERE attrelid = 'work'::regclass AND attnum = 2").Scan(&second); err != nil {
		t.Fatal(err)
	}
	if n := number(t, direct, fmt.Sprintf("SELECT count(*) FROM work WHERE %s IS DISTINCT FROM 'S' OR tok <> $1", pgx.Identifier{second}.Sanitize()), token); n != 0 {
		t.Errorf("%s: %d rows have the wrong columns, or the wrong token", what, n)
	}
	must(t, direct, "TRUNCATE work")
}

func preparedInsert(conn *pgx.Conn, name string, id int) string {
	return code(conn.PgConn().ExecPrepared(context.Background(), name, [][]byte{fmt.Append(nil, id), []byte("S"), []byte("N")}, nil, nil).Read().Err)
}

// I5: what was prepared when the columns were others is not run.
func TestI5PreparedInsertsOutliveColumns(t *testing.T) {
	for _, mode := range rowModes {
		_, connect, direct := columnsProxy(t, mode)
		token := nextToken()
		holder, migration := connect(text(token)), connect(text(token))
		const insert = "INSERT INTO work VALUES ($1, $2, $3)"
		eventually(t, "the columns are known", func() bool {
			_, err := holder.PgConn().Prepare(context.Background(), "p", insert, nil)
			if err != nil || preparedInsert(holder, "p", 1) != "" {
				must(t, holder, "DEALLOCATE ALL")
				return false
			}
			return true
		})
		must(t, holder, "PREPARE q (int, text, text) AS "+insert)
		must(t, holder, "EXECUTE q (2, 'S', 'N')")
		rightRows(t, direct, mode, token)
		// A further column changes nothing for it.
		must(t, migration, "ALTER TABLE work ADD more int")
		eventually(t, "it works again", func() bool {
			return preparedInsert(holder, "p", 3) == "" && run(holder, "EXECUTE q (4, 'S', 'N')") == ""
		})
		rightRows(t, direct, mode, token)

		looked := lookAfter(t, direct)
		must(t, migration, "BEGIN; "+swapped+"; COMMIT")
		for _, when := range []string{"before the look", "behind it"} {
			if got := preparedInsert(holder, "p", 5); got != "ZF004" {
				t.Errorf("%s: prepared by a message, %s: %q", mode, when, got)
			}
			want(t, holder, "EXECUTE q (6, 'S', 'N')", "ZF004")
			looked()
		}
		eventually(t, "prepared again", func() bool {
			must(t, holder, "DEALLOCATE ALL")
			_, err := holder.PgConn().Prepare(context.Background(), "p", insert, nil)
			return err == nil && preparedInsert(holder, "p", 7) == ""
		})
		rightRows(t, direct, mode, token)
	}
}

// I1: what is parsed while its session's DDL makes the columns uncertain is stamped and checked when it runs later.
func TestI1ParsedInATransactionWithDDL(t *testing.T) {
	for _, mode := range rowModes {
		_, connect, direct := columnsProxy(t, mode)
		token := nextToken()
		for who, conn := range map[string]*pgx.Conn{"holder": connect(text(token)), "nobody": connect("")} {
			sqlstate := map[string]string{"holder": "", "nobody": "ZF002"}[who]
			for name, sql := range map[string]string{"p": "INSERT INTO work VALUES ($1, $2, $3)", "w": "WITH u AS (UPDATE work SET note = note) INSERT INTO work VALUES ($1, $2, $3)"} {
				looked := lookAfter(t, direct)
				must(t, conn, "BEGIN; CREATE TABLE other (id int)")
				looked() // so that its text is known to need stamps
				if _, err := conn.PgConn().Prepare(context.Background(), name, sql, nil); err != nil {
					t.Fatal(err)
				}
				if got := preparedInsert(conn, name, 1); got != "ZF004" {
					t.Errorf("%s, %s, %s, in the transaction: %q", mode, who, name, got)
				}
				must(t, conn, "ROLLBACK")
				eventually(t, "the columns are known again", func() bool {
					got := preparedInsert(conn, name, 2)
					if got != sqlstate && got != "ZF004" {
						t.Fatalf("%s, %s, %s, behind it: %q", mode, who, name, got)
					}
					return got == sqlstate
				})
			}
			rightRows(t, direct, mode+" "+who, token)
		}
	}
}

// I5: a session that waits for the lock of DDL that is not committed was told no columns, whenever it came, and DDL in a DO
// block is seen as well.
func TestI5ColumnsWhileOthersChangeThem(t *testing.T) {
	for _, mode := range rowModes {
		_, connect, direct := columnsProxy(t, mode)
		token := nextToken()
		holder, migration := connect(text(token)), connect(text(token))
		insert := "INSERT INTO work VALUES (1, 'S', 'N')"
		known := func() {
			t.Helper()
			eventually(t, "the columns are known", func() bool { return run(holder, insert) == "" && run(migration, insert) == "" })
		}
		for _, ddl := range []string{swapped, "DO $$ BEGIN " + swapped + "; END $$"} {
			known()
			looked := lookAfter(t, direct)
			must(t, migration, "BEGIN")
			must(t, migration, ddl)
			looked()
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			_, err := holder.PgConn().Exec(ctx, insert).ReadAll()
			cancel()
			if got := code(err); got != "ZF004" {
				t.Fatalf("%s: %s is not committed: %q", mode, ddl, got)
			}
			if _, err := holder.PgConn().Prepare(context.Background(), "kept", "INSERT INTO work VALUES ($1, $2, $3)", nil); code(err) != "ZF004" {
				t.Errorf("%s: what could never run can be prepared: %v", mode, err)
			}
			want(t, migration, insert, "ZF004") // that ends the doubt: its transaction can only be rolled back
			must(t, migration, "ROLLBACK")
			known()
			rightRows(t, direct, mode, token)
			// Several segments in one go: the second one's answer is not awaited.
			pipe := migration.PgConn().StartPipeline(context.Background())
			pipe.SendQueryParams("BEGIN", nil, nil, nil, nil)
			if ddl == swapped {
				for _, sql := range []string{"ALTER TABLE work RENAME state TO tmp", "ALTER TABLE work RENAME note TO state", "ALTER TABLE work RENAME tmp TO note"} {
					pipe.SendQueryParams(sql, nil, nil, nil, nil)
				}
			} else {
				pipe.SendQueryParams(ddl, nil, nil, nil, nil)
			}
			pipe.SendQueryParams("COMMIT", nil, nil, nil, nil)
			pipe.SendPipelineSync()
			pipe.SendQueryParams("SELECT pg_sleep(600)", nil, nil, nil, nil)
			pipe.SendPipelineSync()
			if err := pipe.Flush(); err != nil {
				t.Fatal(err)
			}
			for synced := false; !synced; {
				results, err := pipe.GetResults()
				if err != nil {
					t.Fatal(err)
				}
				switch r := results.(type) {
				case *pgconn.ResultReader:
					if _, err := r.Close(); err != nil {
						t.Fatal(err)
					}
				case *pgconn.PipelineSync:
					synced = true
				}
			}
			eventually(t, "known while its session is busy", func() bool { return run(holder, insert) == "" })
			rightRows(t, direct, mode, token)
			must(t, direct, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()")
			migration = connect(text(token))
		}
		// DDL that is refused leaves none behind, in a transaction that can only be rolled back.
		nobody := connect("")
		want(t, nobody, "BEGIN; "+swapped, "ZF002")
		eventually(t, "nobody has changed them", func() bool { return run(holder, insert) == "" })
		must(t, nobody, "ROLLBACK")
		looked := lookAfter(t, direct)
		must(t, migration, "BEGIN; "+swapped+"; SAVEPOINT s")
		want(t, migration, "SELECT 1/0", "22012")
		looked()
		wait, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := holder.PgConn().Exec(wait, insert).ReadAll()
		cancel()
		if got := code(err); got != "ZF004" {
			t.Fatalf("%s: behind ROLLBACK TO it may be committed: %q", mode, got)
		}
		must(t, migration, "ROLLBACK")
		// A session that ends in its transaction leaves no doubt behind.
		must(t, migration, "BEGIN; "+swapped)
		migration.Close(context.Background())
		eventually(t, "nobody changes them", func() bool { return run(holder, insert) == "" })
		rightRows(t, direct, mode, token)
	}
}

// I1: a new row's fence is that of what is stored: a column with a modifier rounds, cuts and pads.
func TestI1ScopeOfAColumnWithAModifier(t *testing.T) {
	for _, k := range []struct{ typ, value, is, not string }{
		{"numeric(10,0)", "1.4", "1", "1.4"},
		{"numeric(10,2)", "1", "1.00", "1"},
		{"character(4)", "'ab'", "ab", "a"},
		{"varchar(4)", "'ab'", "ab", "a"},
	} {
		c := pgtest.Shared(t)
		db := fenced(t, c)
		c.Exec(t, db, strings.Replace(rowSchema, "work (id int", "work (id "+k.typ, 1))
		file := filepath.Join(t.TempDir(), "fenceproxy.yaml")
		if err := os.WriteFile(file, []byte("fences:\n  - name: jobs/*\n    tables: [work]\n    row_token: tok\n    scope: jobs/{id}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := proxytest.Start(t, c.DSN(db, "postgres"), "--config", file)
		for name, sqlstate := range map[string]string{k.is: "", k.not: "ZF002"} {
			conn := p.Connect(t, db, user, fmt.Sprintf("jobs/%s=%d", name, nextToken()))
			want(t, conn, "INSERT INTO work (id) VALUES ("+k.value+")", sqlstate)
			if sqlstate == "" {
				want(t, conn, "DELETE FROM work", "") // the row is the session's
			}
			_, err := conn.PgConn().ExecParams(context.Background(), "INSERT INTO work (id) VALUES ($1)", [][]byte{[]byte(strings.Trim(k.value, "'"))}, nil, nil, nil).Close()
			if got := code(err); got != sqlstate {
				t.Errorf("%s, $1 = %s, token jobs/%s: %q, want %q", k.typ, k.value, name, got, sqlstate)
			}
		}
	}
}
