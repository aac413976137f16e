package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// worker is one of the two who believe that the job is theirs.
type worker struct {
	*stage
	name string
	conn *pgx.Conn
}

func connect(ctx context.Context, dsn, token string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if token != "" {
		config.RuntimeParams["fence.token"] = token
	}
	return pgx.ConnectConfig(ctx, config)
}

// hire opens a worker's session. Without the proxy the token is a setting that nobody reads.
func (s *stage) hire(ctx context.Context, dsn, token string) (*worker, error) {
	w := &worker{stage: s, name: "worker " + token}
	var err error
	w.conn, err = connect(ctx, dsn, token)
	w.tell("connects with fence.token="+token, answer("connected", err))
	return w, err
}

func (w *worker) tell(what, said string) {
	fmt.Fprintf(w.out, "  %-10s %-58s -> %s\n", w.name, what, said)
}

func (s *stage) narrate(format string, args ...any) {
	fmt.Fprintf(s.out, "  %-10s %s\n", "", fmt.Sprintf(format, args...))
}

// run executes a statement and tells what PostgreSQL answered.
func (w *worker) run(ctx context.Context, sql string) error {
	tag, err := w.conn.Exec(ctx, sql)
	w.tell(sql, answer(tag.String(), err))
	return err
}

// balance reads the account.
func (w *worker) balance(ctx context.Context) (n int, err error) {
	const sql = "SELECT balance FROM account WHERE id = 1"
	err = w.conn.QueryRow(ctx, sql).Scan(&n)
	w.tell(sql, answer(fmt.Sprint(n), err))
	return n, err
}

// answer is a tag, or the error as a client sees it.
func answer(tag string, err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return fmt.Sprintf("%s %s: %s", e.Severity, e.Code, e.Message)
	}
	if err != nil {
		return err.Error()
	}
	return tag
}

func sqlstate(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// zombie plays the story on one route: 33 computes a new balance and is paused before it writes it; 34 takes over, does
// the job and is done; 33 wakes up and writes. It returns the balance at the end and what 33's write met.
func (s *stage) zombie(ctx context.Context, dsn string) (balance int, late error, err error) {
	old, err := s.hire(ctx, dsn, "33")
	if err != nil {
		return 0, nil, err
	}
	defer old.conn.Close(context.Background())
	seen, err := old.balance(ctx)
	if err != nil {
		return 0, nil, err
	}
	s.narrate("... and is about to take 50, when it is paused: a long GC, a frozen VM. Its lock runs out.")
	next, err := s.hire(ctx, dsn, "34")
	if err != nil {
		return 0, nil, err
	}
	defer next.conn.Close(context.Background())
	now, err := next.balance(ctx)
	if err != nil {
		return 0, nil, err
	}
	if err := next.run(ctx, fmt.Sprintf("UPDATE account SET balance = %d WHERE id = 1", now-70)); err != nil {
		return 0, nil, err
	}
	s.narrate("... and has paid out 70. Worker 33 wakes up. It still believes that it holds the lock, and writes %d - 50:", seen)
	late = old.run(ctx, fmt.Sprintf("UPDATE account SET balance = %d WHERE id = 1", seen-50))
	balance, err = next.balance(ctx)
	return balance, late, err
}

func (s *stage) withProxy(ctx context.Context) error {
	fmt.Fprintf(s.out, "\nAct 1: through fenceproxy. The account holds 100.\n\n")
	balance, late, err := s.zombie(ctx, s.proxy.DSN("postgres", "app"))
	if err != nil {
		return err
	}
	if sqlstate(late) != "ZF001" || balance != 30 {
		return fmt.Errorf("the stale write met %v and the balance is %d; it should be ZF001 and 30", late, balance)
	}
	fmt.Fprintf(s.out, "\n  100 - 70 = 30. PostgreSQL refused the zombie's write; nothing was lost.\n")
	return nil
}

func (s *stage) withoutProxy(ctx context.Context) error {
	admin, err := connect(ctx, s.cluster.DSN("postgres", "postgres"), "")
	if err != nil {
		return err
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(ctx, "UPDATE account SET balance = 100 WHERE id = 1"); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nAct 2: the same workers, connected to PostgreSQL directly. The account holds 100 again.\n\n")
	balance, late, err := s.zombie(ctx, s.cluster.DSN("postgres", "app"))
	if err != nil {
		return err
	}
	if late != nil || balance != 50 {
		return fmt.Errorf("the stale write met %v and the balance is %d; it should have gone through to 50", late, balance)
	}
	_, err = admin.Exec(ctx, "UPDATE account SET balance = 100 WHERE id = 1")
	fmt.Fprintf(s.out, "\n  70 and 50 were taken from 100, and the books say that 50 is left: 70 is lost, without an error.\n")
	return err
}

// invite says how to go on from another terminal.
func (s *stage) invite() {
	through := s.proxy.DSN("postgres", "app")
	fmt.Fprintf(s.out, `
Try it from another terminal:

  as the new holder   PGOPTIONS='-c fence.token=35' psql '%[1]s'
                      UPDATE account SET balance = balance - 1 WHERE id = 1;
  as a zombie         PGOPTIONS='-c fence.token=34' psql '%[1]s'
  without a token     psql '%[1]s'
  directly            psql '%[2]s'
  figures             curl http://%[3]s/metrics

`, through, s.cluster.DSN("postgres", "app"), s.proxy.Admin())
}
