package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

var execModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// pgx in every mode: fresh writes land, stale ones are refused with ZF001, and the connection stays usable.
func TestPgxInEveryExecMode(t *testing.T) {
	ctx := context.Background()
	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			_, db, p := start(t)
			connect := func(token string) *pgx.Conn {
				config, err := pgx.ParseConfig(p.DSN(db, user))
				if err != nil {
					t.Fatal(err)
				}
				config.DefaultQueryExecMode = mode
				config.RuntimeParams["fence.token"] = token
				conn, err := pgx.ConnectConfig(ctx, config)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close(ctx) })
				return conn
			}
			pay := func(conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "UPDATE acct SET bal = bal + $1 WHERE id = $2", 5, 1)
				return err
			}
			inTx := func(conn *pgx.Conn) error {
				return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "UPDATE acct SET bal = bal + $1 WHERE id = $2", 5, 1)
					return err
				})
			}
			batch := func(conn *pgx.Conn) error {
				b := &pgx.Batch{}
				b.Queue("SELECT 1")
				b.Queue("UPDATE acct SET bal = bal + $1 WHERE id = $2", 5, 1)
				b.Queue("SELECT 2")
				return conn.SendBatch(ctx, b).Close()
			}
			copyIn := func(conn *pgx.Conn) error {
				_, err := conn.CopyFrom(ctx, pgx.Identifier{"acct"}, []string{"id", "bal"}, pgx.CopyFromRows([][]any{{100, 5}}))
				if err == nil {
					_, err = conn.Exec(ctx, "DELETE FROM acct WHERE id = 100")
				}
				return err
			}
			ways := map[string]func(*pgx.Conn) error{"Exec": pay, "transaction": inTx, "batch": batch, "CopyFrom": copyIn}
			old := connect("33")
			for range 3 { // the first run prepares, later ones use what is prepared
				for name, way := range ways {
					if err := way(old); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
			}
			next := connect("34")
			for range 2 {
				for name, way := range ways {
					if err := way(old); code(err) != "ZF001" {
						t.Errorf("%s, stale: %v, want ZF001", name, err)
					}
				}
			}
			var bal int
			if err := old.QueryRow(ctx, "SELECT bal FROM acct WHERE id = $1", 1).Scan(&bal); err != nil || bal != 3*3*5 {
				t.Errorf("bal = %d, %v", bal, err)
			}
			if err := pay(next); err != nil {
				t.Error(err)
			}
		})
	}
}

// pgx's pipeline mode: many queries before one Sync, results read later.
func TestPgxPipeline(t *testing.T) {
	ctx := context.Background()
	_, db, p := start(t)
	pipeline := func(conn *pgx.Conn) (codes []string) {
		pipe := conn.PgConn().StartPipeline(ctx)
		for range 3 {
			pipe.SendQueryParams("SELECT 1", nil, nil, nil, nil)
			pipe.SendQueryParams("UPDATE acct SET bal = bal + 1 WHERE id = $1", [][]byte{[]byte("1")}, nil, nil, nil)
			if err := pipe.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		for {
			results, err := pipe.GetResults()
			if err != nil {
				codes = append(codes, code(err))
				continue
			}
			switch r := results.(type) {
			case *pgconn.ResultReader:
				_, err := r.Close()
				codes = append(codes, code(err))
			case *pgconn.PipelineSync:
				codes = append(codes, "Z")
			case nil:
				if err := pipe.Close(); err != nil {
					t.Fatal(err)
				}
				return codes
			}
		}
	}
	old := p.Connect(t, db, user, "33")
	if got := pipeline(old); !slices.Equal(got, []string{"", "", "Z", "", "", "Z", "", "", "Z"}) {
		t.Errorf("fresh: %q", got)
	}
	p.Connect(t, db, user, "34")
	if got := pipeline(old); !slices.Equal(got, []string{"", "ZF001", "Z", "", "ZF001", "Z", "", "ZF001", "Z"}) {
		t.Errorf("stale: %q", got)
	}
}

// lib/pq: database/sql with and without prepared statements, its COPY, and the token by `options`.
func TestLibPQ(t *testing.T) {
	_, db, p := start(t)
	open := func(params ...string) *sql.DB {
		pool, err := sql.Open("postgres", p.DSN(db, user, params...))
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxOpenConns(1)
		t.Cleanup(func() { pool.Close() })
		return pool
	}
	sqlstate := func(err error) string {
		var e *pq.Error
		if errors.As(err, &e) {
			return string(e.Code)
		}
		return fmt.Sprint(err)
	}
	ways := map[string]func(*sql.DB) error{
		"Exec":       func(d *sql.DB) error { _, err := d.Exec("UPDATE acct SET bal = 1 WHERE id = 1"); return err },
		"parameters": func(d *sql.DB) error { _, err := d.Exec("UPDATE acct SET bal = $1 WHERE id = 1", 5); return err },
		"Prepare": func(d *sql.DB) error {
			stmt, err := d.Prepare("UPDATE acct SET bal = $1 WHERE id = 1")
			if err != nil {
				return err
			}
			defer stmt.Close()
			for range 3 {
				if _, err := stmt.Exec(7); err != nil {
					return err
				}
			}
			return nil
		},
		"CopyIn": func(d *sql.DB) error {
			tx, err := d.Begin()
			if err != nil {
				return err
			}
			defer tx.Rollback()
			stmt, err := tx.Prepare(pq.CopyIn("acct", "id", "bal"))
			if err != nil {
				return err
			}
			if _, err := stmt.Exec(100, 1); err != nil {
				return err
			}
			_, err = stmt.Exec()
			return err
		},
	}
	old := open("fence.token", "33")
	for name, way := range ways {
		if err := way(old); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	next := open("options", "-c fence.token=34")
	if err := next.Ping(); err != nil {
		t.Fatal(err)
	}
	for name, way := range ways {
		if err := way(old); sqlstate(err) != "ZF001" {
			t.Errorf("%s, stale: %v, want ZF001", name, err)
		}
		if err := way(next); err != nil {
			t.Errorf("%s, new holder: %v", name, err)
		}
	}
}
