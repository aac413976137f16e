// Demo plays the story of the zombie worker with real processes that take a real lock, on a throw-away PostgreSQL: once
// through fenceproxy, once without. The lock is etcd's, or with LOCK=postgres one of the lease table. Then it stays up for a
// look around, until Ctrl-C or at once when standard input is no terminal.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"unsafe"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/lockclient/etcd/etcdtest"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func main() {
	etcdtest.Main() // returns unless this process is the etcd
	workerMain()    // returns unless this process is a worker
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := show(ctx, os.Stdout, os.Getenv("LOCK"))
	proxytest.Cleanup()
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func show(ctx context.Context, out io.Writer, lock string) error {
	fmt.Fprintln(out, "Building fenceproxy and starting a throw-away PostgreSQL ...")
	s, err := newStage(out, lock)
	defer s.close()
	if err != nil {
		return err
	}
	if err := s.withProxy(ctx); err != nil {
		return err
	}
	if err := s.withoutProxy(ctx); err != nil {
		return err
	}
	s.invite()
	if !terminal(os.Stdin) {
		fmt.Fprintln(out, "Standard input is no terminal: ending here.")
		return nil
	}
	fmt.Fprintln(out, "Ctrl-C ends everything and removes it.")
	<-ctx.Done()
	return nil
}

// stage is what the story needs: a server, a proxy in front, a database with an account, a lock service.
type stage struct {
	out     io.Writer
	binary  string
	cluster *pgtest.Cluster
	proxy   *proxytest.Proxy
	etcd    *etcdtest.Alone
	locks   string // the URL of the lock service
	stale   string // a token below the mark
}

func newStage(out io.Writer, lock string) (s *stage, err error) {
	s = &stage{out: out}
	if lock != "" && lock != "etcd" && lock != "postgres" {
		return s, fmt.Errorf("LOCK is etcd or postgres, not %q", lock)
	}
	if s.binary, err = proxytest.Build(); err != nil {
		return s, err
	}
	if s.cluster, err = pgtest.New(); err != nil {
		return s, err
	}
	if err := s.admin(
		"CREATE ROLE app LOGIN",
		"GRANT CREATE ON SCHEMA public TO app",
		"SET ROLE app",
		"CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)",
		"INSERT INTO account VALUES (1, 100)",
	); err != nil {
		return s, err
	}
	dsn := s.cluster.DSN("postgres", "postgres")
	if out, err := exec.Command(s.binary, "init", "--dsn", dsn).CombinedOutput(); err != nil {
		return s, fmt.Errorf("fenceproxy init: %w\n%s", err, out)
	}
	if lock == "postgres" {
		s.locks = dsn
		fmt.Fprintln(out, "Locks come from the lease table in the database; LOCK=etcd make demo takes them from an etcd.")
	} else {
		if s.etcd, err = etcdtest.RunAlone(etcdtest.Volatile); err != nil {
			return s, err
		}
		s.locks = "etcd://" + s.etcd.Host()
		fmt.Fprintln(out, "Locks come from an etcd of one member; LOCK=postgres make demo takes them from the database.")
	}
	s.proxy, err = proxytest.New(s.binary, dsn, "--fence", "billing=account")
	return s, err
}

// admin runs statements in the database itself.
func (s *stage) admin(statements ...string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.cluster.DSN("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func (s *stage) close() {
	if s.proxy != nil {
		s.proxy.Kill()
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
	if s.etcd != nil {
		s.etcd.Close()
	}
}

// terminal reports whether f is one; /dev/null is a character device too, and none.
func terminal(f *os.File) bool {
	var settings [64]byte // at least sizeof(struct termios)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&settings[0])))
	return errno == 0
}
