package pgfence_test

import (
	"context"
	"database/sql"
	"log"
	"os"
	"os/exec"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/lockclient"
	_ "github.com/fenceproxy/fenceproxy/lockclient/postgres"

	"github.com/fenceproxy/fenceproxy/lockclient/pgfence"
)

// The lock comes from the database itself, the work goes through the proxy.
func Example() {
	ctx := context.Background()
	locks, err := lockclient.Open(ctx, "postgres://lock@db/app")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	db, err := sql.Open("pgx", "postgres://app@proxy/app")
	if err != nil {
		log.Fatal(err)
	}
	err = locks.Do(ctx, "billing", func(ctx context.Context, l *lockclient.Lease) error {
		return pgfence.InTx(ctx, db, nil, func(tx *pgfence.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE invoices SET sent = true WHERE id = $1", 7)
			return err
		})
	})
	if err != nil {
		log.Print(err) // a lost lock is in it, also when the update was made
	}
}

// With pgx, one round trip for BEGIN and the token.
func ExampleBegin() {
	var pool *pgxpool.Pool
	work := func(ctx context.Context, l *lockclient.Lease) error {
		tx, err := pgfence.Begin(ctx, pool, pgx.TxOptions{})
		if err != nil {
			return err
		}
		defer tx.Rollback(context.WithoutCancel(ctx))
		if _, err := tx.Exec(ctx, "UPDATE invoices SET sent = true WHERE id = $1", 7); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	_ = work // for lockclient.Client.Do
}

// A pool whose connections present the token of whoever uses them.
func ExampleConfigure() {
	cfg, err := pgxpool.ParseConfig("postgres://app@proxy/app")
	if err != nil {
		log.Fatal(err)
	}
	pgfence.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	work := func(ctx context.Context, l *lockclient.Lease) error {
		_, err := pool.Exec(ctx, "UPDATE invoices SET sent = true WHERE id = $1", 7)
		return err
	}
	_ = work // for lockclient.Client.Do
}

func ExampleEnviron() {
	work := func(ctx context.Context, l *lockclient.Lease) error {
		env, err := pgfence.Environ(os.Environ(), l)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "psql", "-h", "proxy", "-f", "invoices.sql", "app") // killed when the lease is lost
		cmd.Env = env
		return cmd.Run()
	}
	_ = work // for lockclient.Client.Do
}
