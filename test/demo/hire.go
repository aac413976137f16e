package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// hired is a worker's process, seen from the stage.
type hired struct {
	*stage
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	token string
}

// hire starts a worker's process. It ends with dismiss, with ctx, and with this process.
func (s *stage) hire(ctx context.Context, name string) (*hired, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &hired{stage: s, name: name, cmd: exec.CommandContext(ctx, self)}
	w.cmd.Env = append(os.Environ(), workerVar+"="+name)
	w.cmd.Stderr = os.Stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewScanner(out)
	return w, pgtest.StartWithParent(w.cmd)
}

func (w *hired) dismiss() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
}

// order gives an order, which a process that is stopped follows when it is woken; hear waits for the reply.
func (w *hired) order(verb, text string) error {
	return json.NewEncoder(w.in).Encode(order{verb, text})
}

func (w *hired) hear() (r reply, err error) {
	if !w.out.Scan() {
		return r, fmt.Errorf("%s has ended: %w", w.name, w.out.Err())
	}
	return r, json.Unmarshal(w.out.Bytes(), &r)
}

// do gives an order, tells the reply, and fails when the reply is an error.
func (w *hired) do(verb, text, what string) (reply, error) {
	if err := w.order(verb, text); err != nil {
		return reply{}, err
	}
	r, err := w.hear()
	if err != nil {
		return r, err
	}
	w.tell(what, r.Said)
	if r.Bad {
		err = fmt.Errorf("%s: %s: %s", w.name, what, r.Said)
	}
	return r, err
}

func (w *hired) tell(what, said string) {
	fmt.Fprintf(w.stage.out, "  %-10s %-58s -> %s\n", w.name, what, said)
}

// begin takes the lock and connects with its token.
func (w *hired) begin(dsn string) error {
	r, err := w.do("lock", w.locks, fmt.Sprintf("asks for the lock \"billing\", TTL %v", ttl))
	if err != nil {
		return err
	}
	w.token = r.Said
	_, err = w.do("connect", dsn, "connects with fence.token=billing="+w.token)
	return err
}

// balance reads the account.
func (w *hired) balance() (n int, err error) {
	const sql = "SELECT balance FROM account WHERE id = 1"
	r, err := w.do("balance", sql, sql)
	if err == nil {
		_, err = fmt.Sscan(r.Said, &n)
	}
	return n, err
}
