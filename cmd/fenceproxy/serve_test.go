package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap/zapcore"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/logging"
	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

// served is a proxy that runs in this process.
type served struct {
	address string
	admin   string
	log     *buffer
	signals chan os.Signal
	ended   chan error
	cluster *pgtest.Cluster
	db      string
	config  atomic.Pointer[config.Config] // what a reload reads
	wrong   atomic.Pointer[error]         // what is wrong with it
}

type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startServe runs serve in front of a new database with the tables acct (fenced as billing) and free, until it is ready.
func startServe(t *testing.T, change func(*config.Config)) *served {
	t.Helper()
	s := launchServe(t, change)
	s.eventually(t, "ready", func() bool { code, _ := s.get(t, "/readyz"); return code == http.StatusOK })
	return s
}

// launchServe is startServe for a proxy that may never be ready.
func launchServe(t *testing.T, change func(*config.Config)) *served {
	t.Helper()
	cluster, db, dsn := installed(t)
	cluster.Exec(t, db, "CREATE TABLE acct (id int PRIMARY KEY, bal int); INSERT INTO acct VALUES (1, 100); CREATE TABLE free (id int)")
	c := config.Default()
	c.Listen = []config.Listener{{Address: "127.0.0.1:0"}}
	c.Upstream, c.Admin = dsn, "127.0.0.1:0"
	c.Fences = []config.Fence{{Name: "billing", Tables: []string{"acct"}}}
	c.TakeoverGrace, c.DrainTimeout = time.Second, 10*time.Second
	if change != nil {
		change(c)
	}
	s := &served{log: &buffer{}, signals: make(chan os.Signal, 2), ended: make(chan error, 1), cluster: cluster, db: db}
	log, err := logging.New(zapcore.AddSync(s.log), "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	s.config.Store(c)
	load := func() (*config.Config, []string, error) {
		if err := s.wrong.Load(); err != nil {
			return nil, nil, *err
		}
		return s.config.Load(), nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { s.ended <- serve(ctx, c, load, log, s.signals); close(s.ended) }()
	t.Cleanup(func() {
		cancel()
		for range s.ended {
		}
		if t.Failed() {
			t.Logf("log:\n%s", s.log)
		}
	})
	s.admin = s.find(t, `"message":"admin listener open","address":"([^"]+)"`)
	s.address = s.find(t, `"message":"listening","address":"([^"]+)"`)
	return s
}

// find waits for a line of the log and returns its first group.
func (s *served) find(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var m []string
	s.eventually(t, pattern, func() bool { m = re.FindStringSubmatch(s.log.String()); return m != nil })
	return m[len(m)-1] // the whole match where there is no group
}

func (s *served) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s\n%s", what, s.log)
		}
	}
}

func (s *served) get(t *testing.T, path string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + s.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func (s *served) dsn(token string) string {
	host, port, _ := net.SplitHostPort(s.address)
	dsn := fmt.Sprintf("host=%s port=%s dbname=%s user=postgres sslmode=disable application_name=smoke", host, port, s.db)
	if token != "" {
		dsn += " options='-c fence.token=" + token + "'"
	}
	return dsn
}

func (s *served) connect(t *testing.T, token string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.dsn(token))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// psql runs one text through the proxy.
func (s *served) psql(t *testing.T, token, sql string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is not installed")
	}
	out, err := exec.Command(path, "-X", "-At", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-d", s.dsn(token), "-c", sql).CombinedOutput()
	return string(out), err
}

func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return fmt.Sprint(err)
}

func TestServeRefusesTheStale(t *testing.T) {
	s := startServe(t, nil)
	if out, err := s.psql(t, "33", "UPDATE acct SET bal = bal - 1 RETURNING bal"); err != nil || !strings.Contains(out, "99") {
		t.Fatalf("%v %s", err, out)
	}
	old := s.connect(t, "33")
	if out, err := s.psql(t, "34", "UPDATE acct SET bal = bal - 1 RETURNING bal"); err != nil || !strings.Contains(out, "98") {
		t.Fatalf("%v %s", err, out)
	}
	if _, err := old.Exec(context.Background(), "UPDATE acct SET bal = 0"); code(err) != "ZF001" {
		t.Errorf("a stale write: %v", err)
	}
	if out, err := s.psql(t, "33", "SELECT 1"); err == nil || !strings.Contains(out, "ZF001") && !strings.Contains(out, "stale") {
		t.Errorf("a stale token at connect: %v %s", err, out)
	}
	if out, err := s.psql(t, "", "UPDATE acct SET bal = 0"); err == nil || !strings.Contains(out, "ZF002") {
		t.Errorf("a write without a token: %v %s", err, out)
	}
	if out, err := s.psql(t, "", "SELECT bal FROM acct; INSERT INTO free VALUES (1)"); err != nil || !strings.Contains(out, "98") {
		t.Errorf("what no fence concerns: %v %s", err, out)
	}
	_, page := s.get(t, "/metrics")
	for _, want := range []string{
		`fenceproxy_rejections_total{by="database",code="ZF002",fence="billing"} 1`,
		`fenceproxy_raises_total{fence="billing"} 2`,
		`fenceproxy_raise_wait_seconds_count 2`,
		`fenceproxy_plan_lookups_total{result="miss"}`,
		`fenceproxy_build_info{`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in\n%s", want, page)
		}
	}
	s.find(t, `"message":"rejected","user":"postgres","database":"test_[^"]*","application":"smoke","remote":"127.0.0.1:\d+","code":"ZF001","fence":"billing","by":"proxy"`)
	s.find(t, `"message":"session started".*"database":"test_`)
	if strings.Contains(s.log.String(), "bal") {
		t.Error("SQL in the log")
	}
}

// A flood of rejections is counted in full and logged within bounds.
func TestRejectionsAreBoundedInTheLog(t *testing.T) {
	s := startServe(t, nil)
	conn := s.connect(t, "")
	const n = 300
	for range n {
		if _, err := conn.Exec(context.Background(), "UPDATE acct SET bal = 0"); code(err) != "ZF002" {
			t.Fatal(err)
		}
	}
	if lines := strings.Count(s.log.String(), `"code":"ZF002"`); lines == 0 || lines > n/2 {
		t.Errorf("%d lines for %d rejections", lines, n)
	}
	_, page := s.get(t, "/metrics")
	if want := fmt.Sprintf(`fenceproxy_rejections_total{by="database",code="ZF002",fence="billing"} %d`, n); !strings.Contains(page, want) {
		t.Errorf("%s is not in\n%s", want, page)
	}
}

func TestObserveRefusesNothing(t *testing.T) {
	s := startServe(t, func(c *config.Config) { c.Mode = config.ModeObserve })
	if out, err := s.psql(t, "", "UPDATE acct SET bal = 1"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	_, page := s.get(t, "/metrics")
	if want := `fenceproxy_rejections_total{by="shadow",code="ZF002",fence="billing"} 1`; !strings.Contains(page, want) {
		t.Errorf("%s is not in\n%s", want, page)
	}
	s.find(t, `"message":"would be rejected in mode enforce".*"code":"ZF002"`)
}

func TestDrain(t *testing.T) {
	s := startServe(t, nil)
	idle, busy := s.connect(t, ""), s.connect(t, "1")
	if _, err := busy.Exec(context.Background(), "BEGIN; UPDATE acct SET bal = 7"); err != nil {
		t.Fatal(err)
	}
	s.signals <- syscall.SIGTERM
	s.find(t, `"message":"draining"`)
	s.eventually(t, "not ready", func() bool {
		code, body := s.get(t, "/readyz")
		return code == http.StatusServiceUnavailable && body == "not ready: draining: no new sessions\n"
	})
	s.eventually(t, "listener closed", func() bool {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	s.eventually(t, "the idle session ended", func() bool {
		_, err := idle.Exec(context.Background(), "SELECT 1")
		return err != nil
	})
	if _, err := busy.Exec(context.Background(), "COMMIT"); err != nil {
		t.Errorf("the transaction could not finish: %v", err)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("serve returned %v", err)
	}
	var bal int
	if err := s.cluster.Connect(t, s.db, "postgres").QueryRow(context.Background(), "SELECT bal FROM acct").Scan(&bal); err != nil || bal != 7 {
		t.Errorf("bal %d, %v", bal, err)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	s := startServe(t, func(c *config.Config) { c.DrainTimeout = time.Hour })
	busy := s.connect(t, "1")
	if _, err := busy.Exec(context.Background(), "BEGIN; UPDATE acct SET bal = 7"); err != nil {
		t.Fatal(err)
	}
	s.signals <- syscall.SIGTERM
	s.find(t, `"message":"draining"`)
	s.signals <- syscall.SIGTERM
	select {
	case err := <-s.ended:
		if !errors.Is(err, errForced) || exitCode(err) != exitFailure {
			t.Errorf("serve returned %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("serve does not end")
	}
}

func TestServeWarnsAtStart(t *testing.T) {
	s := startServe(t, func(c *config.Config) {
		c.Fences = append(c.Fences, config.Fence{Name: "jobs", Tables: []string{"nowhere"}})
	})
	s.find(t, `fence jobs: table nowhere does not exist`)
	s.find(t, `opaque: allow`)
}

// /readyz says no while the schema is missing: every fenced write would fail.
func TestNotReadyWithoutSchema(t *testing.T) {
	s := startServe(t, nil)
	fenceproxy(t, "init", "--uninstall", "--yes", "--dsn", s.cluster.DSN(s.db, "postgres"))
	s.eventually(t, "not ready", func() bool {
		code, body := s.get(t, "/readyz")
		return code == http.StatusServiceUnavailable && body == "not ready: the control connection fails\n"
	})
}

// A control role without its GRANT: who presents a token is told, /readyz says no, and the log names the GRANT.
func TestControlRoleWithoutGrant(t *testing.T) {
	s := launchServe(t, func(c *config.Config) {
		cluster := pgtest.Shared(t)
		cluster.Exec(t, "postgres", "DO $$ BEGIN CREATE ROLE \"No Grant\" LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
		c.Control = strings.Replace(c.Upstream, "postgres@", "No%20Grant@", 1)
	})
	out, err := s.psql(t, "33", "SELECT 1")
	for _, want := range []string{"FATAL", "the control role lacks a privilege", "grants it fence_control"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	late := s.connect(t, "")
	if _, err := late.Exec(context.Background(), "SET fence.token = '33'"); code(err) != "ZF005" || !strings.Contains(err.Error(), "lacks a privilege") {
		t.Errorf("SET: %v", err)
	}
	if _, err := late.Exec(context.Background(), "INSERT INTO free VALUES (1)"); err != nil {
		t.Errorf("what no fence concerns: %v", err)
	}
	s.eventually(t, "not ready", func() bool {
		code, body := s.get(t, "/readyz")
		return code == http.StatusServiceUnavailable && body == "not ready: the control connection fails\n"
	})
	s.find(t, `"message":"the control role lacks a right".*"grant":"GRANT fence_control TO \\"No Grant\\";"`)
	s.find(t, `"message":"not ready: the control connection fails".*a DBA runs: GRANT fence_control TO \\"No Grant\\";`)
	s.find(t, `control role No Grant cannot do all that a takeover needs; a DBA runs: GRANT fence_control`)
}

func TestListenFailure(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := fenceproxy(t, "serve", "--listen", l.Addr().String(), "--upstream", "host=127.0.0.1 port=1", "--fence", "a=t")
	if o.code != exitFailure || !strings.Contains(o.err, "address already in use") {
		t.Errorf("%+v", o)
	}
}

// Who comes by a Unix socket has no address: the log says which socket, and what the kernel knows of the process.
func TestLogNamesClientsOfUnixSockets(t *testing.T) {
	dir, err := os.MkdirTemp("", "fp") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := startServe(t, func(c *config.Config) {
		c.Listen = []config.Listener{{Address: dir + "/.s.PGSQL.6432"}}
	})
	conn, err := pgx.Connect(context.Background(), "host="+dir+" port=6432 user=postgres dbname="+s.db)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	s.find(t, fmt.Sprintf(`"message":"session started".*"remote":"unix:%s/.s.PGSQL.6432 pid=%d uid=%d"`, dir, os.Getpid(), os.Getuid()))
}
