package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
)

type decisionLine struct {
	Time, Verdict, Code, By, Token, Shape, User, Database, Application, Remote string
	Fences                                                                     []string
}

func decisions(t *testing.T, path string) []decisionLine {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var lines []decisionLine
	for line := range strings.Lines(string(b)) {
		var d decisionLine
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, d)
	}
	return lines
}

// Every verdict is a line, with the same fingerprint for texts that differ in literals only, and none of the literals.
func TestDecisionLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := startServe(t, func(c *config.Config) { c.Decisions, c.DecisionFile = config.DecisionsAll, path })
	holder, other := s.connect(t, "33"), s.connect(t, "")
	const secret = "4711"
	do(holder, "UPDATE acct SET bal = "+secret)
	do(holder, "UPDATE acct SET bal = 4712")
	do(holder, "BEGIN; UPDATE acct SET bal = 1")
	do(holder, "UPDATE acct SET bal = 2")
	do(holder, "UPDATE acct SET bal = 3")
	do(holder, "COMMIT")
	do(other, "UPDATE acct SET bal = 5")
	do(other, "INSERT INTO free VALUES (1)")
	s.connect(t, "34")
	do(holder, "UPDATE acct SET bal = 6")
	if _, err := holder.Exec(context.Background(), "UPDATE acct SET bal = $1", 7); code(err) != "ZF001" {
		t.Error(err)
	}
	do(other, "SET fence.token = 'billing=x'")
	want := []string{
		"guarded  [billing] 33 U", "guarded  [billing] 33 U", "guarded  [billing] 33 B", "guarded  [billing] 33 U", "held  [billing] 33 U",
		"rejected ZF002 [billing]  U", "rejected ZF001 [billing] 33 U", "rejected ZF001 [billing] 33 P", "rejected ZF003 []  S",
	}
	var got []string
	s.eventually(t, "as many lines", func() bool { return len(decisions(t, path)) >= len(want) })
	lines := decisions(t, path)
	names := map[string]string{lines[0].Shape: "U", lines[2].Shape: "B", lines[7].Shape: "P", lines[8].Shape: "S"}
	for _, d := range lines {
		got = append(got, strings.Join([]string{d.Verdict, d.Code, "[" + strings.Join(d.Fences, ",") + "]", d.Token, names[d.Shape]}, " "))
		if d.User != "postgres" || d.Database != s.db || d.Application != "smoke" || !strings.HasPrefix(d.Remote, "127.0.0.1:") || d.Time == "" {
			t.Errorf("%+v", d)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if b, _ := os.ReadFile(path); strings.Contains(string(b), secret) || strings.Contains(string(b), "acct") {
		t.Errorf("SQL in the log:\n%s", b)
	}
}

// A statement that its own row refuses says so in both logs, with the word of the metric.
func TestDecisionOfARow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := startServe(t, func(c *config.Config) {
		c.Decisions, c.DecisionFile = config.DecisionsRejections, path
		c.Fences = []config.Fence{{Name: "jobs/*", Tables: []string{"jobs"}, RowToken: "tok", OnStale: config.OnStaleRewrite}}
	})
	s.cluster.Exec(t, s.db, "CREATE TABLE jobs (id int, tok int8 NOT NULL DEFAULT 0); INSERT INTO jobs VALUES (1)")
	do(s.connect(t, ""), "UPDATE jobs SET id = 2")
	s.eventually(t, "a line", func() bool { return len(decisions(t, path)) == 1 })
	if d := decisions(t, path)[0]; d.Code != "ZF002" || d.By != "row" {
		t.Errorf("%+v", d)
	}
	if !s.metric(t, `fenceproxy_rejections_total{by="row",code="ZF002",fence=""} 1`) || !strings.Contains(s.log.String(), `"by":"row"`) {
		t.Error("not by the row in the metric or in the log")
	}
}

// SIGHUP opens the file again, and turns the log on and off for sessions to come.
func TestDecisionLogReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	s := startServe(t, func(c *config.Config) { c.DecisionFile = path })
	do(s.connect(t, ""), "UPDATE acct SET bal = 1")
	if _, err := os.Stat(path); err == nil {
		t.Error("a file of a log that is off")
	}
	s.reload(t, func(c *config.Config) { c.Decisions = config.DecisionsRejections })
	conn := s.connect(t, "33")
	do(conn, "UPDATE acct SET bal = 1")
	do(s.connect(t, ""), "UPDATE acct SET bal = 1")
	s.eventually(t, "a line", func() bool { return len(decisions(t, path)) == 1 })
	if d := decisions(t, path)[0]; d.Verdict != "rejected" || d.Code != "ZF002" {
		t.Errorf("%+v", d)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	s.signals <- syscall.SIGHUP
	s.eventually(t, "reloaded", func() bool { return s.metric(t, `fenceproxy_config_reload_total{result="unchanged"} 1`) })
	do(s.connect(t, ""), "UPDATE acct SET bal = 1")
	s.eventually(t, "a line in the new file", func() bool { return len(decisions(t, path)) == 1 })
	if n := len(decisions(t, path+".1")); n != 1 {
		t.Errorf("%d lines in the old file", n)
	}
}
