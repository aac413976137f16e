package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
)

// connectLimit bounds how long an operator waits for a server that does not answer.
const connectLimit = 15 * time.Second

// addDSN defines --dsn. Without it the PG* environment decides, as for psql.
func addDSN(cmd *cobra.Command) *string {
	return cmd.Flags().String("dsn", "", "`DSN` of the database (default: PGHOST, PGDATABASE, PGUSER, ... as for psql)")
}

// connect opens a connection of its own for a command.
func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, wrongConfig(fmt.Errorf("--dsn: %w", config.DSNError(err)))
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "fenceproxy"
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, connectError(cfg, err)
	}
	return conn, nil
}

// connectError says where to and why; pgx repeats each attempt on lines of its own.
func connectError(cfg *pgx.ConnConfig, err error) error {
	where := fmt.Sprintf("%s:%d, database %q, user %q", cfg.Host, cfg.Port, cfg.Database, cfg.User)
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return fmt.Errorf("cannot connect to %s: %s (SQLSTATE %s)", where, pg.Message, pg.Code)
	}
	cause := err
	var network *net.OpError
	if errors.As(err, &network) {
		cause = network
	} else if errors.Is(err, context.DeadlineExceeded) {
		cause = errors.New("no answer within " + connectLimit.String())
	}
	return fmt.Errorf("cannot connect to %s: %w", where, cause)
}
