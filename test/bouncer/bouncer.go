// Package bouncer runs pgbouncer beside fenceproxy, to compare with.
package bouncer

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/test/freeport"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// Bouncer is a running pgbouncer in session mode.
type Bouncer struct {
	cmd  *exec.Cmd
	dir  string
	addr string
}

// Start puts a pgbouncer in front of one database of a cluster, for so many sessions at a time; Close ends it.
func Start(c *pgtest.Cluster, database string, places int) (*Bouncer, error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not in everybody's PATH
	}
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	dir, err := os.MkdirTemp("", "bouncer")
	if err != nil {
		return nil, err
	}
	b := &Bouncer{dir: dir, addr: addr.String()}
	config := fmt.Sprintf(`[databases]
%s = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = session
max_client_conn = %d
default_pool_size = %d
ignore_startup_parameters = extra_float_digits, options
`, database, c.Port(), addr.Port, places+100, places)
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

// Addr is host:port of the listener.
func (b *Bouncer) Addr() string { return b.addr }

// Pid is the process id.
func (b *Bouncer) Pid() int { return b.cmd.Process.Pid }

// Close ends it.
func (b *Bouncer) Close() {
	if b.cmd != nil {
		b.cmd.Process.Kill()
		b.cmd.Wait()
	}
	os.RemoveAll(b.dir)
}
