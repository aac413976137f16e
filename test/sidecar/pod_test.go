package sidecar

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/freeport"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// program is started again whenever it ends, as a service manager does it (systemd's RestartSec is 100 ms).
type program struct {
	make func() *exec.Cmd

	mu      sync.Mutex
	running *exec.Cmd // nil between two runs
	stopped bool      // by SIGSTOP
	over    bool
	starts  int
	output  tail
	ended   chan struct{}
}

const restartPause = 100 * time.Millisecond

func supervise(t *testing.T, make func() *exec.Cmd) *program {
	p := &program{make: make, ended: closed()}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (p *program) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil
	}
	cmd := p.make()
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := pgtest.StartWithParent(cmd); err != nil {
		return err
	}
	p.running, p.stopped = cmd, false
	p.starts++
	p.ended = make(chan struct{})
	go p.follow(cmd, p.ended)
	return nil
}

func (p *program) follow(cmd *exec.Cmd, ended chan struct{}) {
	cmd.Wait()
	p.mu.Lock()
	p.running = nil
	close(ended)
	p.mu.Unlock()
	time.Sleep(restartPause)
	p.start() // what could be started once can be started again
}

// signal reports whether there was a process to take it.
func (p *program) signal(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil || s == syscall.SIGSTOP && p.stopped || s == syscall.SIGCONT && !p.stopped {
		return false
	}
	p.stopped = s == syscall.SIGSTOP
	return p.running.Process.Signal(s) == nil
}

func (p *program) end() {
	p.mu.Lock()
	p.over = true
	if p.running != nil {
		p.running.Process.Kill()
	}
	ended := p.ended
	p.mu.Unlock()
	<-ended
}

// tail keeps the last of what a program prints.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	const most = 4 << 10
	b.text = b.text[max(0, len(b.text)-most):]
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// pod is a copy of the service and its sidecar.
type pod struct {
	name            string
	sidecar, writer *program
}

// script is what the writers do. They know nothing of locks and tokens.
const script = `\set id random(1, 4)
BEGIN;
UPDATE acct SET bal = bal + 1 WHERE id = :id;
\sleep 2 ms
INSERT INTO ledger (note) VALUES ('paid');
COMMIT;
\sleep 3 ms
`

// pods are three copies. The writers differ in how they speak the protocol.
func (p *place) pods() []*pod {
	t := p.t
	file := filepath.Join(t.TempDir(), "pay.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, pgbench := proxytest.Binary(t), p.c.Program("pgbench")
	var pods []*pod
	for i, protocol := range []string{"simple", "extended", "prepared"} {
		pod := &pod{name: fmt.Sprintf("pod%d", i+1)}
		port := freePort(t)
		pod.sidecar = supervise(t, func() *exec.Cmd {
			return exec.Command(binary, "serve", "--listen", "127.0.0.1:"+port, "--upstream", p.c.DSN(p.db, "postgres"),
				"--fence", "acct=acct,ledger", "--hold", "acct", "--backend", p.backend, "--takeover-grace", grace.String(), "--log-level", "warn")
		})
		pod.writer = supervise(t, func() *exec.Cmd {
			cmd := exec.Command(pgbench, "-n", "-c", "2", "-T", "36000", "-M", protocol, "-f", file)
			cmd.Env = append(os.Environ(), "PGHOST=127.0.0.1", "PGPORT="+port, "PGUSER=postgres", "PGDATABASE="+p.db, "PGAPPNAME="+pod.name, "PGOPTIONS=")
			return cmd
		})
		pods = append(pods, pod)
	}
	return pods
}

func freePort(t *testing.T) string {
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}
