package drivers

import (
	"bytes"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

var smithTime = flag.Duration("sqlsmith", 15*time.Second, "how long sqlsmith runs")

// sqlsmith asks random, valid and mostly absurd statements. Whatever PostgreSQL says to them, the proxy must keep in step: it
// ends no session by itself, finds no reply that it did not expect, and the fenced table is as it was (sqlsmith rolls back).
func TestSQLSmith(t *testing.T) {
	path, err := exec.LookPath("sqlsmith")
	if err != nil {
		t.Skip("sqlsmith is not installed; make test-drivers installs it where it can")
	}
	s := newSetting(t)
	s.cluster.Exec(t, s.db, full)
	const look = "SELECT count(*) || ' ' || md5(string_agg(note, ',' ORDER BY id)) FROM ledger"
	var before, after string
	conn := s.cluster.Connect(t, s.db, "postgres")
	if err := conn.QueryRow(t.Context(), look).Scan(&before); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(s.proxy.Addr(), ":")
	target := fmt.Sprintf("host=%s port=%s dbname=%s user=clerk options='-c fence.token=10 -c statement_timeout=1s'", host, port, s.db)
	cmd := exec.Command(path, "--verbose", "--exclude-catalog", "--target="+target)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := pgtest.StartWithParent(cmd); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		t.Fatalf("sqlsmith ended by itself: %v\n%.3000s", err, tail(out.String()))
	case <-time.After(*smithTime):
		cmd.Process.Signal(syscall.SIGTERM)
		<-done
	}
	text := out.String()
	if err := conn.QueryRow(t.Context(), look).Scan(&after); err != nil || before != after {
		t.Errorf("the fenced table was %s and is %s, %v", before, after, err)
	}
	statements := s.proxy.Metric(t, "fenceproxy_statements_total")
	guards := s.proxy.Metric(t, "fenceproxy_guards_total")
	t.Logf("%v statements, %v guards in %v", statements, guards, *smithTime)
	if statements < 50 || guards < 10 {
		t.Errorf("too few\n%s", tail(text))
	}
	if n := s.proxy.Metric(t, "fenceproxy_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
	_, page, err := s.proxy.Get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		// A sqlsmith that is ended with a reply unread resets its connection.
		byClient := strings.Contains(line, `"client_closed"`) || strings.Contains(line, `"client_error"`)
		if strings.HasPrefix(line, "fenceproxy_sessions_ended_total") && !byClient && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("sessions ended: %s%s", line, tail(text))
		}
	}
}

func tail(text string) string { return text[max(0, len(text)-3000):] }
