package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

func (s *stage) narrate(format string, args ...any) {
	fmt.Fprintf(s.out, "  %-10s %s\n", "", fmt.Sprintf(format, args...))
}

// zombie plays the story on one route: A computes a new balance and is stopped before it writes it; B waits for the lock,
// gets it when A's has run out, and does the job; A wakes up and writes. It returns the balance at the end and what A's
// write met.
func (s *stage) zombie(ctx context.Context, dsn string) (balance int, late reply, err error) {
	old, err := s.hire(ctx, "worker A")
	if err != nil {
		return 0, late, err
	}
	defer old.dismiss()
	if err := old.begin(dsn); err != nil {
		return 0, late, err
	}
	seen, err := old.balance()
	if err != nil {
		return 0, late, err
	}
	s.narrate("... and is about to take 50, when it is paused, as by a frozen VM: SIGSTOP to process %d.", old.cmd.Process.Pid)
	if err := old.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return 0, late, err
	}
	stopped := time.Now()
	next, err := s.hire(ctx, "worker B")
	if err != nil {
		return 0, late, err
	}
	defer next.dismiss()
	if err := next.begin(dsn); err != nil {
		return 0, late, err
	}
	now, err := next.balance()
	if err != nil {
		return 0, late, err
	}
	sql := "UPDATE account SET balance = %d WHERE id = 1"
	pay := fmt.Sprintf(sql, now-70)
	if _, err := next.do("run", pay, pay); err != nil {
		return 0, late, err
	}
	s.narrate("... and has paid out 70. SIGCONT: worker A wakes up after %.1f s and writes %d - 50:", time.Since(stopped).Seconds(), seen)
	pay = fmt.Sprintf(sql, seen-50)
	if err := old.order("run", pay); err != nil {
		return 0, late, err
	}
	if err := old.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return 0, late, err
	}
	if late, err = old.hear(); err != nil {
		return 0, late, err
	}
	old.tell(pay, late.Said)
	if err := old.lost(); err != nil {
		return 0, late, err
	}
	if balance, err = next.balance(); err != nil {
		return 0, late, err
	}
	_, err = next.do("release", "", "gives the lock back")
	if s.stale == "" { // of the first act, in which the fence heard of the token after it
		s.stale = old.token
	}
	return balance, late, err
}

// lost asks the lock client of a worker that was stopped for longer than its TTL.
func (w *hired) lost() error {
	if err := w.order("check", ""); err != nil {
		return err
	}
	r, err := w.hear()
	if err != nil {
		return err
	}
	w.tell("asks its lock client, Lease.Check", r.Said)
	if !r.Bad {
		return fmt.Errorf("the lease of %s is held after a stop of more than its TTL", w.name)
	}
	return nil
}

func (s *stage) withProxy(ctx context.Context) error {
	fmt.Fprintf(s.out, "\nAct 1: through fenceproxy. The account holds 100.\n\n")
	balance, late, err := s.zombie(ctx, s.proxy.DSN("postgres", "app"))
	if err != nil {
		return err
	}
	if late.Code != "ZF001" || balance != 30 {
		return fmt.Errorf("the stale write met %q and the balance is %d; it should be ZF001 and 30", late.Said, balance)
	}
	fmt.Fprintf(s.out, "\n  100 - 70 = 30. PostgreSQL refused the zombie's write; nothing was lost.\n")
	return nil
}

func (s *stage) withoutProxy(ctx context.Context) error {
	refill := "UPDATE account SET balance = 100 WHERE id = 1"
	if err := s.admin(refill); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nAct 2: the same workers, the same lock, connected to PostgreSQL directly. The account holds 100 again.\n\n")
	balance, late, err := s.zombie(ctx, s.cluster.DSN("postgres", "app"))
	if err != nil {
		return err
	}
	if late.Bad || balance != 50 {
		return fmt.Errorf("the stale write met %q and the balance is %d; it should have gone through to 50", late.Said, balance)
	}
	fmt.Fprintf(s.out, "\n  70 and 50 were taken from 100, and the books say that 50 is left: 70 is lost, without an error.\n")
	return s.admin(refill)
}

// invite says how to go on from another terminal.
func (s *stage) invite() {
	fmt.Fprintf(s.out, `
Try it from another terminal:

  with the lock       %[1]s run --lock billing --backend '%[2]s' -- psql '%[3]s'
                      UPDATE account SET balance = balance - 1 WHERE id = 1;
  who holds it        %[1]s watch billing --backend '%[2]s'
  as a zombie         PGOPTIONS='-c fence.token=billing=%[4]s' psql '%[3]s'
  without a token     psql '%[3]s'
  directly            psql '%[5]s'
  figures             curl http://%[6]s/metrics

`, s.binary, s.locks, s.proxy.DSN("postgres", "app"), s.stale, s.cluster.DSN("postgres", "app"), s.proxy.Admin())
}
