package drivers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

const toolLimit = 2 * time.Minute

// tool runs one of PostgreSQL's programs and returns what it printed, errors behind it, and its exit.
func (s setting) tool(t *testing.T, env []string, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(s.cluster.Program(args[0]), args[1:]...)
	cmd.Env = append(append(s.environment(), "PGUSER=postgres"), env...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	kill := time.AfterFunc(toolLimit, func() { cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Run()
	return out.String() + errs.String(), err
}

func (s setting) mustTool(t *testing.T, env []string, stdin string, args ...string) string {
	t.Helper()
	out, err := s.tool(t, env, stdin, args...)
	if err != nil {
		t.Fatalf("%v: %v\n%.2000s", args, err, out)
	}
	return out
}

// directly leads a program past the proxy.
func (s setting) directly() []string {
	_, port, _ := strings.Cut(s.cluster.Addr(), ":")
	return []string{"PGPORT=" + port}
}

// The fence schema stays out of a dump: marks belong to their database.
var dumpArgs = []string{"pg_dump", "--exclude-schema=fence"}

func needDump(t *testing.T, c *pgtest.Cluster) {
	out, err := exec.Command(c.Program("pg_dump"), "--version").Output()
	if err != nil {
		t.Skip("pg_dump is not installed")
	}
	var major int
	if _, err := fmt.Sscanf(string(out), "pg_dump (PostgreSQL) %d", &major); err != nil || major < c.Major {
		t.Skipf("the server is newer, and %s refuses that: %v", strings.TrimSpace(string(out)), err)
	}
}

// full fills a database with what a dump must carry: the fenced table, a large one, large objects, awkward text.
const full = `
INSERT INTO ledger (note, token) SELECT 'row ' || g, '1' FROM generate_series(1, 5000) g;
INSERT INTO ledger (note, token) VALUES (E'tab\t, newline\n, backslash \\, quote '' and \\.', NULL);
CREATE TABLE plain (id int PRIMARY KEY, doc jsonb, raw bytea);
INSERT INTO plain SELECT g, jsonb_build_object('k', repeat('x', g % 700)), decode(repeat('00ff', g % 300), 'hex') FROM generate_series(1, 3000) g;
CREATE VIEW seen AS SELECT note FROM ledger;
CREATE FUNCTION total() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM ledger';
SELECT lo_from_bytea(0, decode(repeat('ab', 5000), 'hex'));`

// A dump through the proxy is the dump, and it can be restored through the proxy by who holds the token, and only by them.
func TestDumpAndRestore(t *testing.T) {
	needDump(t, pgtest.Shared(t))
	s := newSetting(t)
	s.cluster.Exec(t, s.db, full)
	text := s.mustTool(t, nil, "", dumpArgs...)
	want := withoutKey(s.mustTool(t, s.directly(), "", dumpArgs...))
	if withoutKey(text) != want {
		t.Fatal("the dump through the proxy differs from the direct one")
	}
	archive := filepath.Join(t.TempDir(), "archive")
	s.mustTool(t, nil, "", append(slices.Clone(dumpArgs), "-Fc", "-f", archive)...)
	inserts := s.mustTool(t, nil, "", append(slices.Clone(dumpArgs), "--rows-per-insert=100")...)
	restores := map[string]struct {
		stdin string
		args  []string
	}{
		"psql":                    {text, []string{"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"}},
		"psql in one transaction": {text, []string{"psql", "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1"}},
		"psql of INSERTs":         {inserts, []string{"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"}},
		"pg_restore":              {"", []string{"pg_restore", "-d", "", "--exit-on-error", archive}},
		"pg_restore -j 3":         {"", []string{"pg_restore", "-d", "", "--exit-on-error", "-j", "3", archive}},
	}
	for name, r := range restores {
		t.Run(name, func(t *testing.T) {
			restore := func(options string) (db, out string, err error) {
				db = s.cluster.NewDatabase(t)
				proxytest.Install(t, s.cluster.DSN(db, "postgres"))
				args := slices.Clone(r.args)
				if i := slices.Index(args, "-d"); i > 0 {
					args[i+1] = db
				}
				out, err = s.tool(t, []string{"PGDATABASE=" + db, "PGOPTIONS=" + options}, r.stdin, args...)
				return db, out, err
			}
			if _, out, err := restore(""); err == nil || !strings.Contains(out, `fence "ledger" requires a fencing token`) {
				t.Errorf("without a token: %v\n%.500s", err, out)
			}
			db, out, err := restore("-c fence.token=30")
			if err != nil {
				t.Fatalf("%v\n%.2000s", err, out)
			}
			got := withoutKey(s.mustTool(t, append(s.directly(), "PGDATABASE="+db), "", dumpArgs...))
			if got != want {
				t.Errorf("the restored database differs:\n%s", firstDifference(got, want))
			}
		})
	}
}

// withoutKey leaves out the random key of \restrict, which newer releases of pg_dump write.
func withoutKey(dump string) string {
	var kept []string
	for line := range strings.Lines(dump) {
		if !strings.HasPrefix(line, `\restrict `) && !strings.HasPrefix(line, `\unrestrict `) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got  " + g[i] + "\nwant " + w[i]
		}
	}
	return "one is longer"
}

// pgbench in pipeline mode with pgbench_accounts fenced; a takeover stops it.
func TestPgbenchPipeline(t *testing.T) {
	c := pgtest.Shared(t)
	if _, err := exec.LookPath(c.Program("pgbench")); err != nil {
		t.Skip("pgbench is not installed")
	}
	db := c.NewDatabase(t)
	proxytest.Install(t, c.DSN(db, "postgres"))
	s := setting{c, db, proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "bank=pgbench_accounts")}
	token := []string{"PGOPTIONS=-c fence.token=10"}
	s.mustTool(t, token, "", "pgbench", "-i", "-q")
	script := filepath.Join(t.TempDir(), "pipeline")
	text := "\\startpipeline\nSELECT 1;\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :client_id + 1;\nSELECT 2;\n\\endpipeline\n"
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"extended", "prepared"} {
		s.mustTool(t, token, "", "pgbench", "-n", "-M", mode, "-c", "4", "-t", "100", "-f", script)
	}
	var sum int
	if err := c.Connect(t, db, "postgres").QueryRow(t.Context(), "SELECT sum(abalance) FROM pgbench_accounts").Scan(&sum); err != nil || sum != 800 {
		t.Errorf("sum %d, %v, want 800", sum, err)
	}
	s.proxy.Connect(t, db, "postgres", "20")
	if out, err := s.tool(t, token, "", "pgbench", "-n", "-M", "extended", "-t", "10", "-f", script); err == nil || !strings.Contains(out, "stale fencing token") {
		t.Errorf("a stale pgbench: %v\n%s", err, out)
	}
}
