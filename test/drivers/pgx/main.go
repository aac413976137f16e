// Pgx is the program of package drivers for github.com/jackc/pgx/v5.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var ctx = context.Background()

func report(check string, err error) {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		fmt.Printf("%s: 00000\n", check)
	case errors.As(err, &pg):
		fmt.Printf("%s: %s\n", check, pg.Code)
	default:
		fmt.Printf("%s: %q\n", check, err)
	}
}

// connect takes host, port, database and user from the environment, and the token from options ("" for none).
func connect(options string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("options='" + options + "'")
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config)
}

func must(conn *pgx.Conn, err error) *pgx.Conn {
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

func value(conn *pgx.Conn, sql string) string {
	var v string
	if err := conn.QueryRow(ctx, sql).Scan(&v); err != nil {
		return err.Error()
	}
	return v
}

const insert = "INSERT INTO ledger (note) VALUES ($1)"

func write(conn *pgx.Conn, note string) error {
	_, err := conn.Exec(ctx, "INSERT INTO ledger (note) VALUES ('"+strings.ReplaceAll(note, "'", "''")+"')", pgx.QueryExecModeSimpleProtocol)
	return err
}

func copyIn(conn *pgx.Conn, note string) error {
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"ledger"}, []string{"note"}, pgx.CopyFromRows([][]any{{note}, {note}}))
	return err
}

func pipeline(conn *pgx.Conn, note string) error {
	batch := &pgx.Batch{}
	batch.Queue("SELECT 1")
	batch.Queue(insert, note)
	batch.Queue("SELECT 2")
	return conn.SendBatch(ctx, batch).Close()
}

func cancel(conn *pgx.Conn) error {
	failed := make(chan error)
	go func() {
		_, err := conn.Exec(ctx, "SELECT pg_sleep(30)")
		failed <- err
	}()
	for {
		conn.PgConn().CancelRequest(ctx)
		select {
		case err := <-failed:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func main() {
	bare := must(connect(""))
	report("no token", write(bare, "no token"))
	if _, err := bare.Exec(ctx, "SET fence.token = '10'"); err != nil {
		log.Fatal(err)
	}
	report("token by SET", write(bare, "token by SET"))

	old := must(connect("-c fence.token=10"))
	fmt.Println("token at connect:", value(old, "SELECT current_setting('fence.token')"))
	report("write", write(old, "write"))
	if _, err := old.Prepare(ctx, "write", insert); err != nil {
		log.Fatal(err)
	}
	var err error
	for range 3 {
		if _, e := old.Exec(ctx, "write", "prepared write"); e != nil {
			err = e
		}
	}
	report("prepared write", err)
	report("commit", pgx.BeginFunc(ctx, old, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert, "commit")
		return err
	}))
	tx, err := old.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := tx.Exec(ctx, insert, "rollback"); err != nil {
		log.Fatal(err)
	}
	report("rollback", tx.Rollback(ctx))
	report("copy in", copyIn(old, "copy in"))
	var out strings.Builder
	if _, err := old.PgConn().CopyTo(ctx, &out, "COPY (SELECT note FROM ledger WHERE note = 'write') TO STDOUT"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("copy out:", strings.TrimSpace(out.String()))
	report("pipeline", pipeline(old, "pipeline"))
	report("cancel", cancel(old))

	config, err := pgx.ParseConfig("")
	if err != nil {
		log.Fatal(err)
	}
	config.RuntimeParams["fence.token"] = "20" // the other way to present a token at startup
	next := must(pgx.ConnectConfig(ctx, config))
	fmt.Println("takeover:", value(next, "SELECT current_setting('fence.token')"))

	report("stale write", write(old, "stale write"))
	_, err = old.Exec(ctx, "write", "stale prepared write")
	report("stale prepared write", err)
	if tx, err = old.Begin(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = tx.Exec(ctx, insert, "stale transaction")
	report("stale transaction", err)
	_, err = tx.Exec(ctx, "SELECT 1")
	report("behind the refusal", err)
	if err := tx.Rollback(ctx); err != nil {
		log.Fatal(err)
	}
	report("stale copy in", copyIn(old, "stale copy in"))
	report("stale pipeline", pipeline(old, "stale pipeline"))
	_, err = must(connect("")).Exec(ctx, "SET fence.token = '15'")
	report("stale SET", err)
	_, err = connect("-c fence.token=15")
	report("stale connect", err)
	fmt.Println("usable after refusal:", value(old, "SELECT '42'"))
	report("new holder's write", write(next, "new holder's write"))
}
