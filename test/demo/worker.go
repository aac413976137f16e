package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/lockclient"
	_ "github.com/fenceproxy/fenceproxy/lockclient/etcd"
	"github.com/fenceproxy/fenceproxy/lockclient/pgfence"
	_ "github.com/fenceproxy/fenceproxy/lockclient/postgres"
)

// ttl of the workers' locks. The etcd of the demo grants it as asked.
const ttl = time.Second

const workerVar = "DEMO_WORKER"

// order is what a worker is told to do, reply what came of it: one JSON line each.
type order struct{ Verb, Text string }

type reply struct {
	Said string
	Code string // SQLSTATE
	Bad  bool
}

// workerMain is a worker in a process of its own: it follows the orders on its standard input until that closes.
func workerMain() {
	if os.Getenv(workerVar) == "" {
		return
	}
	w := &worker{ctx: context.Background()}
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			os.Exit(1)
		}
		out.Encode(answer(w.follow(o)))
	}
	os.Exit(0)
}

// worker is one of the two who believe that the job is theirs. It does what programs do: it takes the lock, and works.
type worker struct {
	ctx   context.Context
	locks *lockclient.Client
	lease *lockclient.Lease
	conn  *pgx.Conn
}

func (w *worker) follow(o order) (said string, err error) {
	switch o.Verb {
	case "lock":
		if w.locks, err = lockclient.Open(w.ctx, o.Text, lockclient.WithTTL(ttl)); err != nil {
			return "", err
		}
		w.lease, err = w.locks.Lock(w.ctx, "billing")
		if err != nil {
			return "", err
		}
		return w.lease.Fence().Token.String(), nil
	case "connect":
		config, err := pgx.ParseConfig(o.Text)
		if err != nil {
			return "", err
		}
		if config.RuntimeParams, err = pgfence.RuntimeParams(w.lease); err != nil {
			return "", err
		}
		w.conn, err = pgx.ConnectConfig(w.ctx, config)
		return "connected", err
	case "balance":
		var n int
		err := w.conn.QueryRow(w.ctx, o.Text).Scan(&n)
		return fmt.Sprint(n), err
	case "run":
		tag, err := w.conn.Exec(w.ctx, o.Text)
		return tag.String(), err
	case "check":
		return "held", w.lease.Check()
	case "release":
		return "released", w.lease.Release(w.ctx)
	}
	return "", fmt.Errorf("no such order: %s", o.Verb)
}

// answer is what was said, or the error as a client sees it.
func answer(said string, err error) reply {
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e):
		return reply{Said: fmt.Sprintf("%s %s: %s", e.Severity, e.Code, e.Message), Code: e.Code, Bad: true}
	case err != nil:
		return reply{Said: err.Error(), Bad: true}
	}
	return reply{Said: said}
}
