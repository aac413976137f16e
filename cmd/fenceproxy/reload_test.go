package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
)

// reload changes the configuration and waits until it was read.
func (s *served) reload(t *testing.T, change func(*config.Config)) {
	t.Helper()
	c := *s.config.Load()
	change(&c)
	s.config.Store(&c)
	const line = `"message":"configuration reloaded"`
	before := strings.Count(s.log.String(), line)
	s.signals <- syscall.SIGHUP
	s.eventually(t, "reloaded", func() bool { return strings.Count(s.log.String(), line) > before })
}

func (s *served) metric(t *testing.T, line string) bool {
	t.Helper()
	_, page := s.get(t, "/metrics")
	return strings.Contains(page, "\n"+line+"\n")
}

func fenceFree(c *config.Config) {
	c.Fences = append(slices.Clone(c.Fences), config.Fence{Name: "spare", Tables: []string{"free"}})
	c.BareToken = "billing"
}

func do(conn *pgx.Conn, sql string) string {
	_, err := conn.Exec(context.Background(), sql)
	if err == nil {
		return ""
	}
	return code(err)
}

// I1: a fence that is added binds all sessions that begin from now on, and those of before end at the end of their
// transaction: none of them can write the newly fenced table unguarded when a token of the fence is acknowledged.
func TestReloadAddsAFence(t *testing.T) {
	s := startServe(t, nil)
	idle, busy := s.connect(t, ""), s.connect(t, "")
	prepared := s.connect(t, "") // an application that prepared its statement before
	if _, err := prepared.Prepare(context.Background(), "w", "INSERT INTO free VALUES (3)"); err != nil {
		t.Fatal(err)
	}
	if got := do(busy, "BEGIN; INSERT INTO free VALUES (1)"); got != "" {
		t.Fatal(got)
	}
	s.reload(t, fenceFree)
	for name, conn := range map[string]*pgx.Conn{"idle": idle, "prepared": prepared} {
		s.eventually(t, name+" ended", func() bool {
			if !conn.IsClosed() {
				do(conn, "EXECUTE w")
			}
			return conn.IsClosed()
		})
	}
	fresh := s.connect(t, "")
	if got := do(fresh, "INSERT INTO free VALUES (2)"); got != "ZF002" {
		t.Errorf("a write to the newly fenced table: %q, want ZF002", got)
	}
	if got := do(fresh, "SET fence.token = 'billing=1'"); got != "" {
		t.Errorf("a token of the fence that was there before: %q", got)
	}
	// The new fence's token waits for the transaction that began under the former configuration.
	announced := make(chan string, 1)
	go func() { announced <- do(fresh, "SET fence.token = 'spare=7'") }()
	select {
	case got := <-announced:
		t.Fatalf("acknowledged while an unguarded transaction is open: %q", got)
	case <-time.After(300 * time.Millisecond): // nothing tells that it is waiting
	}
	if !s.metric(t, "fenceproxy_config_reload_old_sessions 1") {
		t.Error("the old session is not counted")
	}
	if got := do(busy, "COMMIT"); got != "" {
		t.Errorf("the open transaction could not finish: %q", got)
	}
	if got := <-announced; got != "" {
		t.Errorf("the new fence's token: %q", got)
	}
	if got := do(fresh, "INSERT INTO free VALUES (2)"); got != "" {
		t.Errorf("a write with the token: %q", got)
	}
	s.find(t, `"message":"configuration in force[^}]*"cut_off":0`)
	s.eventually(t, "counted", func() bool {
		return s.metric(t, "fenceproxy_config_reload_old_sessions 0") && s.metric(t, `fenceproxy_config_reload_total{result="applied"} 1`)
	})
}

// A transaction that does not end is cut off, and rolled back, before the fence is in force.
func TestReloadCutsOff(t *testing.T) {
	s := startServe(t, func(c *config.Config) { c.DrainTimeout = 500 * time.Millisecond })
	busy := s.connect(t, "")
	if got := do(busy, "BEGIN; INSERT INTO free VALUES (1)"); got != "" {
		t.Fatal(got)
	}
	s.reload(t, fenceFree)
	if got := do(s.connect(t, ""), "SET fence.token = 'spare=7'"); got != "" {
		t.Errorf("the new fence's token: %q", got)
	}
	s.find(t, `"message":"configuration in force[^}]*"cut_off":1`)
	if got := do(busy, "COMMIT"); got != "57P01" {
		t.Errorf("the old session: %q", got)
	}
	var rows int
	if err := s.cluster.Connect(t, s.db, "postgres").QueryRow(context.Background(), "SELECT count(*) FROM free").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// What sessions are judged by ends them; other settings change under their feet, or for the next ones.
func TestReloadSparesSessions(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*config.Config)
		ends   bool
	}{
		{"log level", func(c *config.Config) { c.LogLevel = "error" }, false},
		{"limits", func(c *config.Config) { c.Limits.MaxConnections, c.Limits.MaxParseBytes = 5, 1<<20 }, false},
		{"a function is harmless", func(c *config.Config) { c.HarmlessFunctions = []string{"f"} }, false},
		{"grace", func(c *config.Config) { c.TakeoverGrace = time.Hour }, false},
		{"opaque: reject", func(c *config.Config) { c.Opaque = config.OpaqueReject }, true},
		{"tokenless: opaque-readonly", func(c *config.Config) { c.Tokenless = config.TokenlessOpaqueReadOnly }, true},
		{"another table", func(c *config.Config) { c.Fences = []config.Fence{{Name: "billing", Tables: []string{"acct", "free"}}} }, true},
		{"a fence is gone", func(c *config.Config) { c.Fences = []config.Fence{{Name: "other", Tables: []string{"acct"}}} }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := startServe(t, nil)
			conn := s.connect(t, "")
			do(conn, "SELECT 1")
			c := *s.config.Load()
			tc.change(&c)
			s.config.Store(&c)
			s.signals <- syscall.SIGHUP
			s.eventually(t, "applied", func() bool { return s.metric(t, `fenceproxy_config_reload_total{result="applied"} 1`) })
			if tc.ends {
				s.eventually(t, "ended", func() bool { do(conn, "SELECT 1"); return conn.IsClosed() })
			} else if got := do(conn, "INSERT INTO free VALUES (1)"); got != "" {
				t.Errorf("%q", got)
			}
		})
	}
}

// New sessions run under the new settings.
func TestReloadIsForNewSessions(t *testing.T) {
	s := startServe(t, func(c *config.Config) { c.Opaque = config.OpaqueReject })
	s.cluster.Exec(t, s.db, "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
	old := s.connect(t, "")
	s.reload(t, func(c *config.Config) {
		c.HarmlessFunctions, c.Limits.MaxConnections, c.LogLevel = []string{"f"}, 2, "debug"
		c.AnnounceRoles = []string{"nobody"}
	})
	if got := do(old, "SELECT f()"); got != "ZF002" {
		t.Errorf("the old session: %q", got)
	}
	fresh := s.connect(t, "")
	if got := do(fresh, "SELECT f()"); got != "" {
		t.Errorf("the new session: %q", got)
	}
	if got := do(fresh, "SET fence.token = 1"); got != "ZF003" {
		t.Errorf("a role that may not announce: %q", got)
	}
	if got := do(old, "SET fence.token = 1"); got != "" {
		t.Errorf("the old session may: %q", got)
	}
	if _, err := pgx.Connect(context.Background(), s.dsn("")); code(err) != "53300" {
		t.Errorf("one session too many: %v", err)
	}
}

// A configuration that is wrong changes nothing, says where, and shows in the metrics until it is right again.
func TestReloadOfAWrongConfiguration(t *testing.T) {
	s := startServe(t, nil)
	file := write(t, "fenceproxy.yaml", "upstream: host=db\nmode: enforce\nfences: [{name: a, tables: [t]}]\nlog: {level: loud}\n")
	_, _, wrong := config.Load(config.Source{File: file})
	s.wrong.Store(&wrong)
	conn := s.connect(t, "")
	s.signals <- syscall.SIGHUP
	s.find(t, `"message":"configuration not reloaded: the former one stays in force","by":"SIGHUP","error":"[^"]*fenceproxy.yaml:4:14: unknown level`)
	if got := do(conn, "UPDATE acct SET bal = 0"); got != "ZF002" {
		t.Errorf("%q", got)
	}
	if !s.metric(t, "fenceproxy_config_reload_success 0") || !s.metric(t, `fenceproxy_config_reload_total{result="failed"} 1`) {
		t.Error("the failure is not in the metrics")
	}
	o := fenceproxy(t, "reload", "--admin", s.admin)
	if o.code != exitRefused || !strings.Contains(o.err, "not reloaded, the former configuration stays in force:\n") || !strings.Contains(o.err, ":4:14: unknown level") ||
		!strings.Contains(o.err, "    4 | log: {level: loud}\n") {
		t.Errorf("%+v", o)
	}
	s.wrong.Store(nil)
	fenceproxy(t, "reload", "--admin", s.admin).want(t, exitOK, "reloaded: nothing has changed\n", "")
	if !s.metric(t, "fenceproxy_config_reload_success 1") || !s.metric(t, `fenceproxy_config_reload_total{result="unchanged"} 1`) {
		t.Error("the success is not in the metrics")
	}
}

func TestReloadCommand(t *testing.T) {
	s := startServe(t, nil)
	s.connect(t, "")
	c := *s.config.Load()
	fenceFree(&c)
	c.Listen, c.LogFormat = append(slices.Clone(c.Listen), config.Listener{Address: ":1"}), config.LogConsole
	s.config.Store(&c)
	t.Setenv("FENCEPROXY_ADMIN", s.admin)
	fenceproxy(t, "reload").want(t, exitOK, `
reloaded: fences, bare_token
1 session of the former configuration: ended with their transaction, at the latest in 10s
needs a restart: listen, log.format
`, "")
	s.find(t, `"message":"settings that differ from those of this process and need a restart","settings":\["listen","log.format"\]`)
	o := fenceproxy(t, "reload", "--json")
	if o.code != exitOK || o.out != `{"changed":[],"restart":["listen","log.format"],"sessions_ending":0}`+"\n" {
		t.Errorf("%+v", o)
	}
	t.Setenv("FENCEPROXY_ADMIN", "")
	fenceproxy(t, "reload").want(t, exitUsage, "", "fenceproxy: which proxy? name its admin listener: --admin ADDRESS\nsee fenceproxy reload --help\n")
	o = fenceproxy(t, "reload", "--admin", "127.0.0.1:1")
	if o.code != exitFailure || !strings.HasPrefix(o.err, "fenceproxy: cannot reach the admin listener 127.0.0.1:1: ") {
		t.Errorf("%+v", o)
	}
	file := write(t, "f.yaml", "admin: "+s.admin+"\nno: such setting\n")
	if o := fenceproxy(t, "reload", "--config", file); o.code != exitUsage || !strings.Contains(o.err, "f.yaml:2:1") {
		t.Errorf("%+v", o)
	}
}

// Observe and off judge nobody, so nobody is ended.
func TestReloadInObserveEndsNobody(t *testing.T) {
	s := startServe(t, func(c *config.Config) { c.Mode = config.ModeObserve })
	conn := s.connect(t, "")
	s.reload(t, fenceFree)
	if got := do(conn, "INSERT INTO free VALUES (1)"); got != "" {
		t.Errorf("%q", got)
	}
	do(s.connect(t, ""), "INSERT INTO free VALUES (1)")
	if want := `fenceproxy_rejections_total{by="shadow",code="ZF002",fence="spare"} 1`; !s.metric(t, want) {
		t.Errorf("no %s", want)
	}
}

// A reload of a draining proxy is refused: it would begin to end sessions twice.
func TestReloadWhileDraining(t *testing.T) {
	s := startServe(t, nil)
	busy := s.connect(t, "")
	do(busy, "BEGIN")
	s.signals <- syscall.SIGTERM
	s.find(t, `"message":"draining"`)
	s.eventually(t, "refused", func() bool {
		o := fenceproxy(t, "reload", "--admin", s.admin)
		return o.code == exitRefused && strings.Contains(o.err, errDraining.Error())
	})
	s.signals <- syscall.SIGHUP // is none of the second signals
	if got := do(busy, "COMMIT"); got != "" {
		t.Error(got)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// Every setting is one or the other: it changes in a running process, or it is named as one that does not.
func TestMerge(t *testing.T) {
	a := config.Default()
	b := config.Default()
	b.Admin, b.LogLevel, b.Limits.Processors, b.Limits.IdleTimeout = ":1", "warn", 3, time.Minute
	c, changed, restart := merge(a, b)
	if got := fmt.Sprint(changed, restart); got != "[limits.idle_timeout log.level] [admin limits.processors]" {
		t.Error(got)
	}
	if c.Admin != "" || c.Limits.Processors != 0 || c.LogLevel != "warn" || c.Limits.IdleTimeout != time.Minute {
		t.Errorf("%+v", c)
	}
}
