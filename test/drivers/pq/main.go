// Pq is the program of package drivers for github.com/lib/pq, by database/sql.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/lib/pq"
)

var ctx = context.Background()

func report(check string, err error) {
	var pg *pq.Error
	switch {
	case err == nil:
		fmt.Printf("%s: 00000\n", check)
	case errors.As(err, &pg):
		fmt.Printf("%s: %s\n", check, pg.Code)
	default:
		fmt.Printf("%s: %q\n", check, err)
	}
}

// connect opens one session; host, port, database and user come from the environment.
func connect(dsn string) (*sql.Conn, error) {
	pool, err := sql.Open("postgres", "sslmode=disable "+dsn)
	if err != nil {
		return nil, err
	}
	return pool.Conn(ctx)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func value(conn *sql.Conn, query string) string {
	var v string
	if err := conn.QueryRowContext(ctx, query).Scan(&v); err != nil {
		return err.Error()
	}
	return v
}

const insert = "INSERT INTO ledger (note) VALUES ($1)"

func write(conn *sql.Conn, note string) error {
	_, err := conn.ExecContext(ctx, "INSERT INTO ledger (note) VALUES ("+pq.QuoteLiteral(note)+")")
	return err
}

func copyIn(conn *sql.Conn, note string) error {
	tx := must(conn.BeginTx(ctx, nil))
	defer tx.Rollback()
	stmt, err := tx.Prepare(pq.CopyIn("ledger", "note"))
	if err != nil {
		return err
	}
	for range 2 {
		if _, err := stmt.Exec(note); err != nil {
			return err
		}
	}
	if _, err := stmt.Exec(); err != nil {
		return err
	}
	if err := stmt.Close(); err != nil {
		return err
	}
	return tx.Commit()
}

func main() {
	bare := must(connect(""))
	report("no token", write(bare, "no token"))
	must(bare.ExecContext(ctx, "SET fence.token = '10'"))
	report("token by SET", write(bare, "token by SET"))

	old := must(connect("options='-c fence.token=10'"))
	fmt.Println("token at connect:", value(old, "SELECT current_setting('fence.token')"))
	report("write", write(old, "write"))
	prepared := must(old.PrepareContext(ctx, insert))
	var err error
	for range 3 {
		if _, e := prepared.Exec("prepared write"); e != nil {
			err = e
		}
	}
	report("prepared write", err)
	tx := must(old.BeginTx(ctx, nil))
	must(tx.Exec(insert, "commit"))
	report("commit", tx.Commit())
	tx = must(old.BeginTx(ctx, nil))
	must(tx.Exec(insert, "rollback"))
	report("rollback", tx.Rollback())
	report("copy in", copyIn(old, "copy in"))
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	_, err = must(connect("")).ExecContext(soon, "SELECT pg_sleep(30)") // lib/pq gives up a session that it has cancelled
	cancel()
	report("cancel", err)

	next := must(connect("fence.token=20")) // the other way to present a token at startup
	fmt.Println("takeover:", value(next, "SELECT current_setting('fence.token')"))

	report("stale write", write(old, "stale write"))
	_, err = prepared.Exec("stale prepared write")
	report("stale prepared write", err)
	tx = must(old.BeginTx(ctx, nil))
	_, err = tx.Exec(insert, "stale transaction")
	report("stale transaction", err)
	_, err = tx.Exec("SELECT 1")
	report("behind the refusal", err)
	if err := tx.Rollback(); err != nil {
		log.Fatal(err)
	}
	report("stale copy in", copyIn(old, "stale copy in"))
	_, err = must(connect("")).ExecContext(ctx, "SET fence.token = '15'")
	report("stale SET", err)
	_, err = connect("options='-c fence.token=15'")
	report("stale connect", err)
	fmt.Println("usable after refusal:", strings.TrimSpace(value(old, "SELECT '42'")))
	report("new holder's write", write(next, "new holder's write"))
}
