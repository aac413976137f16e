// Demo plays the story of the zombie worker with real sessions on a throw-away PostgreSQL: once through fenceproxy, once
// without. Then it stays up for a look around, until Ctrl-C or at once when standard input is no terminal.
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

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := show(ctx, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func show(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "Building fenceproxy and starting a throw-away PostgreSQL ...")
	s, err := newStage(out)
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

// stage is what the story needs: a server, a proxy in front, a database with an account.
type stage struct {
	out     io.Writer
	cluster *pgtest.Cluster
	proxy   *proxytest.Proxy
}

func newStage(out io.Writer) (*stage, error) {
	s := &stage{out: out}
	binary, err := proxytest.Build()
	if err != nil {
		return s, err
	}
	if s.cluster, err = pgtest.New(); err != nil {
		return s, err
	}
	admin, err := connect(context.Background(), s.cluster.DSN("postgres", "postgres"), "")
	if err != nil {
		return s, err
	}
	defer admin.Close(context.Background())
	for _, sql := range []string{
		"CREATE ROLE app LOGIN",
		"GRANT CREATE ON SCHEMA public TO app",
		"SET ROLE app",
		"CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)",
		"INSERT INTO account VALUES (1, 100)",
	} {
		if _, err := admin.Exec(context.Background(), sql); err != nil {
			return s, fmt.Errorf("%s: %w", sql, err)
		}
	}
	dsn := s.cluster.DSN("postgres", "postgres")
	if out, err := exec.Command(binary, "init", "--dsn", dsn).CombinedOutput(); err != nil {
		return s, fmt.Errorf("fenceproxy init: %w\n%s", err, out)
	}
	s.proxy, err = proxytest.New(binary, dsn, "--fence", "billing=account")
	return s, err
}

func (s *stage) close() {
	if s.proxy != nil {
		s.proxy.Kill()
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
	proxytest.Cleanup()
}

// terminal reports whether f is one; /dev/null is a character device too, and none.
func terminal(f *os.File) bool {
	var settings [64]byte // at least sizeof(struct termios)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&settings[0])))
	return errno == 0
}
