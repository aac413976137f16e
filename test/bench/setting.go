package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// setting is a server with the pgbench tables and everything that can stand in front of it. All of them reach it by TCP.
type setting struct {
	durable  bool // fsync on
	cluster  *pgtest.Cluster
	unfenced *proxytest.Proxy // the fence is on another table
	fenced   *proxytest.Proxy
	bouncer  *bouncer
	dir      string // scripts
}

const database = "bench"

// token is what fenced sessions present, and what the hand-written fencing compares with.
const token = "34"

var scripts = map[string]string{
	"select": "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n",
	"update": "\\set aid random(1, 100000 * :scale)\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n",
	// The shortest fencing by hand that keeps a stale writer out whatever it writes: a check that holds the fence's row
	// until the transaction ends. (A check inside of the UPDATE has the UPDATE's snapshot and lets stale writes through.)
	"by hand": "\\set aid random(1, 100000 * :scale)\nBEGIN;\nSELECT token FROM fence_by_hand WHERE name = 'bank' AND token <= " + token +
		" FOR SHARE;\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\nCOMMIT;\n",
}

func newSetting(p plan, durable bool) (*setting, error) {
	s := &setting{durable: durable}
	var opts []pgtest.Option
	opts = append(opts, pgtest.WithSetting("shared_buffers", "512MB"), pgtest.WithSetting("max_wal_size", "4GB"),
		pgtest.WithSetting("max_connections", "300"))
	if durable {
		opts = append(opts, pgtest.WithFsync())
	}
	binary, err := proxytest.Build()
	if err != nil {
		return s, err
	}
	if s.cluster, err = pgtest.New(opts...); err != nil {
		return s, err
	}
	dsn := s.cluster.DSN(database, "postgres")
	for _, args := range [][]string{
		{s.cluster.Program("psql"), "-qc", "CREATE DATABASE " + database, s.cluster.DSN("postgres", "postgres")},
		{s.cluster.Program("pgbench"), "-iq", "-s", strconv.Itoa(p.scale), dsn},
		{s.cluster.Program("psql"), "-qc", "CREATE TABLE fence_by_hand (name text PRIMARY KEY, token bigint); INSERT INTO fence_by_hand VALUES ('bank', " + token + ")", dsn},
		{s.cluster.Program("psql"), "-qc", "ALTER TABLE pgbench_accounts SET (autovacuum_enabled = off)", dsn},
		{binary, "init", "--dsn", dsn},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return s, fmt.Errorf("%v: %w\n%s", args, err, out)
		}
	}
	if s.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return s, err
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
			return s, err
		}
	}
	if s.unfenced, err = proxytest.New(binary, dsn, "--fence", "other=elsewhere"); err != nil {
		return s, err
	}
	if s.fenced, err = proxytest.New(binary, dsn, "--fence", "bank=pgbench_accounts"); err != nil {
		return s, err
	}
	s.bouncer, err = startBouncer(s.cluster)
	return s, err
}

func (s *setting) close() {
	for _, p := range []*proxytest.Proxy{s.unfenced, s.fenced} {
		if p != nil {
			p.Kill()
		}
	}
	if s.bouncer != nil {
		s.bouncer.close()
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
	os.RemoveAll(s.dir)
}

// bouncer is a running pgbouncer in session mode.
type bouncer struct {
	cmd  *exec.Cmd
	dir  string
	addr string
}

func startBouncer(c *pgtest.Cluster) (*bouncer, error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not in everybody's PATH
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	dir, err := os.MkdirTemp("", "bouncer")
	if err != nil {
		return nil, err
	}
	b := &bouncer{dir: dir, addr: addr.String()}
	config := fmt.Sprintf(`[databases]
%s = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = session
max_client_conn = 200
default_pool_size = 100
ignore_startup_parameters = extra_float_digits, options
`, database, c.Port(), addr.Port)
	path := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return b, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return b, err
	}
	cmd := exec.Command(program, "-q", path)
	if os.Geteuid() == 0 { // it refuses to be root
		cmd = exec.Command(program, "-q", "-u", "postgres", path)
	}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := pgtest.StartWithParent(cmd); err != nil {
		return b, fmt.Errorf("pgbouncer: %w; run: apt-get install -y pgbouncer", err)
	}
	b.cmd = cmd
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", b.addr)
		if err == nil {
			return b, conn.Close()
		}
		if time.Now().After(deadline) {
			return b, fmt.Errorf("pgbouncer does not answer: %w\n%s", err, log.String())
		}
	}
}

func (b *bouncer) close() {
	if b.cmd != nil {
		b.cmd.Process.Kill()
		b.cmd.Wait()
	}
	os.RemoveAll(b.dir)
}
