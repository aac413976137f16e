package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/freeport"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 30 * time.Second
	pollEvery  = 5 * time.Millisecond
)

// Cluster is one running PostgreSQL server with superuser postgres. Its methods are for one goroutine; the names and
// addresses it hands out are for any.
type Cluster struct {
	Installation
	dir  string // holds data/, the socket and the log
	port int
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// Start gives the test a cluster of its own, stopped when the test ends.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c, err := New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("PostgreSQL's last lines:\n%s", c.LogTail(4000))
		}
		c.Close()
	})
	return c
}

// New starts a cluster outside of a test; Close ends it and removes its files.
func New(opts ...Option) (*Cluster, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(shortTempDir(), "pg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Installation: o.installation, dir: dir}
	if err = c.create(o); err == nil {
		err = c.startOnFreePort(o)
	}
	if err == nil {
		return c, nil
	}
	tail := c.LogTail(4000)
	c.Close()
	return nil, fmt.Errorf("pgtest: start: %w\n%s", err, tail)
}

// shortTempDir leaves room for the socket's name: sun_path holds 108 bytes.
func shortTempDir() string {
	if dir := os.TempDir(); len(dir) < 60 {
		return dir
	}
	return "/tmp"
}

func (c *Cluster) create(o options) error {
	if err := os.Chmod(c.dir, 0o711); err != nil { // the server's user passes through
		return err
	}
	switch {
	case o.backupOf != "":
		if err := c.baseBackup(o.backupOf); err != nil {
			return err
		}
	case o.ownIdentity:
		if err := c.initdb(c.dataDir()); err != nil {
			return err
		}
	default:
		template, err := c.template()
		if err != nil {
			return err
		}
		if err := os.CopyFS(c.dataDir(), os.DirFS(template)); err != nil {
			return err
		}
	}
	if o.hba != nil {
		hba := []byte(strings.Join(o.hba, "\n") + "\n")
		if err := os.WriteFile(filepath.Join(c.dataDir(), "pg_hba.conf"), hba, 0o600); err != nil {
			return err
		}
	}
	for name, from := range o.files {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.dataDir(), name), content, 0o600); err != nil {
			return err
		}
	}
	if err := giveToServer(c.dir); err != nil {
		return err
	}
	// CopyFS keeps permissions but not the top directory's; the server insists on 0700.
	return filepath.WalkDir(c.dataDir(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
}

func (c *Cluster) baseBackup(dsn string) error {
	if err := giveToServer(c.dir); err != nil {
		return err
	}
	cmd, err := serverCommand(c.Program("pg_basebackup"), "-d", dsn, "-D", c.dataDir(), "-R", "-c", "fast", "--no-sync")
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return nil
}

// startOnFreePort tries again when somebody takes the port between our look and the server's bind.
func (c *Cluster) startOnFreePort(o options) error {
	var err error
	for range 5 {
		if c.port, err = freeport.Take(); err != nil {
			return err
		}
		o.settings["port"] = strconv.Itoa(c.port)
		o.settings["unix_socket_directories"] = c.dir
		conf := filepath.Join(c.dataDir(), "postgresql.auto.conf")
		if err = os.WriteFile(conf, []byte(o.configuration()), 0o600); err != nil {
			return err
		}
		if err = giveToServer(conf); err != nil {
			return err
		}
		if err = c.start(); err == nil || !strings.Contains(c.LogTail(4000), "Address already in use") {
			return err
		}
	}
	return err
}

func (c *Cluster) start() error {
	cmd, err := serverCommand(filepath.Join(c.BinDir, "postgres"), "-D", c.dataDir())
	if err != nil {
		return err
	}
	log, err := os.OpenFile(c.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := StartWithParent(cmd); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	c.cmd, c.done = cmd, done
	return c.waitReady()
}

func (c *Cluster) waitReady() error {
	deadline := time.Now().Add(startLimit)
	for {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		conn, err := pgx.Connect(ctx, c.SocketDSN("postgres", "postgres"))
		cancel()
		if err == nil {
			return conn.Close(context.Background())
		}
		select {
		case <-c.done:
			return errors.New("the server ended at start")
		case <-time.After(pollEvery):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no connection within %v: %w", startLimit, err)
		}
	}
}

func (c *Cluster) dataDir() string { return filepath.Join(c.dir, "data") }

// LogFile is the path of the server's log.
func (c *Cluster) LogFile() string { return filepath.Join(c.dir, "log") }

// LogTail returns at most the last n bytes of the server's log.
func (c *Cluster) LogTail(n int) string {
	raw, _ := os.ReadFile(c.LogFile())
	return string(raw[max(0, len(raw)-n):])
}

// Addr is host:port of the loopback listener; the port stays the same over Restart.
func (c *Cluster) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)) }

// Port is the TCP port, which names the Unix socket as well.
func (c *Cluster) Port() int { return c.port }

// SocketDir holds the Unix socket .s.PGSQL.<port>.
func (c *Cluster) SocketDir() string { return c.dir }

// DSN is a URL that libpq, pgx and lib/pq read alike.
func (c *Cluster) DSN(db, user string) string {
	return (&url.URL{Scheme: "postgres", User: url.User(user), Host: c.Addr(), Path: "/" + db, RawQuery: "sslmode=disable"}).String()
}

// SocketDSN is the same over the Unix socket, in keyword form.
func (c *Cluster) SocketDSN(db, user string) string {
	return fmt.Sprintf("host=%s port=%d dbname=%s user=%s sslmode=disable", c.dir, c.port, db, user)
}

// Pid is the postmaster's process id.
func (c *Cluster) Pid() int { return c.cmd.Process.Pid }

// Kill ends the postmaster and all its processes with SIGKILL, as a crash of the server would. Restart recovers.
func (c *Cluster) Kill() {
	pid := c.Pid()
	syscall.Kill(pid, syscall.SIGSTOP) // so that it starts no more children while we list them
	pids := children(pid)
	for _, child := range pids {
		syscall.Kill(child, syscall.SIGKILL)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	<-c.done
	for _, child := range pids { // a new postmaster refuses to start while one holds the shared memory
		for running(child) {
			time.Sleep(pollEvery)
		}
	}
}

// Stop shuts the server down (fast: sessions are ended, the state is flushed).
func (c *Cluster) Stop() {
	if c.cmd == nil {
		return
	}
	c.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-c.done:
	case <-time.After(stopLimit):
		c.Kill()
	}
}

// Restart starts the server again on the same port, stopping it first when it runs.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.Stop()
	err := c.start()
	// A backend that was killed may be seen as gone a moment before the kernel has let go of its shared memory.
	for try := 0; err != nil && try < 50 && strings.Contains(c.LogTail(400), "pre-existing shared memory block"); try++ {
		time.Sleep(100 * time.Millisecond)
		err = c.start()
	}
	if err != nil {
		t.Fatalf("pgtest: restart: %v\n%s", err, c.LogTail(4000))
	}
}

// Close ends the server at once and removes its files.
func (c *Cluster) Close() {
	if c.cmd != nil {
		c.cmd.Process.Signal(syscall.SIGQUIT) // its files go anyway: no checkpoint
		select {
		case <-c.done:
		case <-time.After(stopLimit):
			c.Kill()
		}
	}
	os.RemoveAll(c.dir)
}

var databases atomic.Int64

// NewDatabase creates an empty database of a name never used before in this test binary. It is not dropped: a test may
// leave sessions and prepared transactions, and the cluster goes away anyway.
func (c *Cluster) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	c.Exec(t, "postgres", "CREATE DATABASE "+name+" TEMPLATE template0")
	return name
}

// Exec runs SQL (several statements are allowed) as the superuser, directly.
func (c *Cluster) Exec(t testing.TB, db, sql string) {
	t.Helper()
	conn := c.Connect(t, db, "postgres")
	defer conn.Close(context.Background())
	if _, err := conn.PgConn().Exec(context.Background(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Connect opens a direct connection, closed when the test ends.
func (c *Cluster) Connect(t testing.TB, db, user string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), c.DSN(db, user))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
