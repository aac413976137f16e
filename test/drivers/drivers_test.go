package drivers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func TestMain(m *testing.M) { pgtest.Main(m, proxytest.Cleanup) }

// A program that hangs is ended; a passing run takes seconds.
const programLimit = 2 * time.Minute

const schema = `
DO $$ BEGIN IF to_regrole('clerk') IS NULL THEN CREATE ROLE clerk LOGIN; END IF; END $$;
CREATE TABLE ledger (id serial PRIMARY KEY, note text NOT NULL, token text DEFAULT current_setting('fence.token', true));
ALTER TABLE ledger OWNER TO clerk;
GRANT CREATE ON SCHEMA public TO clerk;`

// setting is one database with the fenced table ledger, and a proxy in front of it.
type setting struct {
	cluster *pgtest.Cluster
	db      string
	proxy   *proxytest.Proxy
}

func newSetting(t *testing.T) setting {
	t.Helper()
	c := pgtest.Shared(t)
	db := c.NewDatabase(t)
	c.Exec(t, db, schema)
	proxytest.Install(t, c.DSN(db, "postgres"))
	return setting{c, db, proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "ledger=ledger")}
}

// environment leads libpq, and every program here, to the proxy.
func (s setting) environment() []string {
	host, port, _ := strings.Cut(s.proxy.Addr(), ":")
	return append(os.Environ(), "PGHOST="+host, "PGPORT="+port, "PGDATABASE="+s.db, "PGUSER=clerk", "PGOPTIONS=", "LC_ALL=C")
}

// run starts a program in a directory and returns what it printed; a failure ends the test.
func (s setting) run(t *testing.T, dir string, limit time.Duration, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, s.environment()
	cmd.WaitDelay = time.Second
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out.String(), errs.String())
	}
	if testing.Verbose() && errs.Len() > 0 {
		t.Logf("stderr:\n%s", errs.String())
	}
	return out.String()
}

func TestDrivers(t *testing.T) {
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) {
			if why := d.missing(); why != "" {
				t.Skipf("%s; make test-drivers installs it where it can", why)
			}
			args, err := d.command(t)
			if err != nil {
				t.Fatal(err)
			}
			s := newSetting(t)
			began := time.Now()
			out := s.run(t, d.dir(), programLimit, args...)
			t.Logf("%v", time.Since(began).Round(time.Millisecond))
			d.judge(t, out)
			d.compare(t, s)
			if n := s.proxy.Metric(t, "fenceproxy_panics_total"); n != 0 {
				t.Errorf("%v panics", n)
			}
		})
	}
}

// judge compares what a program reported with the table.
func (d driver) judge(t *testing.T, out string) {
	got := map[string]string{}
	for line := range strings.Lines(out) {
		name, result, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			t.Errorf("printed %q", line)
			continue
		}
		if before, twice := got[name]; twice {
			t.Errorf("%s was reported twice: %s, %s", name, before, result)
		}
		got[name] = result
	}
	known := map[string]bool{}
	for _, c := range append(checks[:len(checks):len(checks)], d.also...) {
		known[c.name] = true
		want := c.want
		if text, ok := d.differs[c.name]; ok {
			want = text
		}
		t.Run(c.name, func(t *testing.T) {
			result, reported := got[c.name]
			switch why := d.lacks[c.name]; {
			case why != "" && reported:
				t.Errorf("%s, though it is said to be impossible: %s", result, why)
			case why != "":
				t.Skip(why)
			case !reported:
				t.Error("not reported")
			case result != want:
				t.Errorf("%s, want %s", result, want)
			}
		})
	}
	for name, result := range got {
		if !known[name] {
			t.Errorf("unknown check %s: %s", name, result)
		}
	}
}

// compare looks at what the fenced table holds: all of the fresh writes, none of the refused ones.
func (d driver) compare(t *testing.T, s setting) {
	conn := s.cluster.Connect(t, s.db, "postgres")
	rows, err := conn.Query(context.Background(), "SELECT note, coalesce(token, ''), count(*) FROM ledger GROUP BY 1, 2")
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]string{}
	for name, w := range written {
		if _, no := d.lacks[name]; !no {
			left[name] = fmt.Sprint(w.times, " with token ", w.token)
		}
	}
	for rows.Next() {
		var note, token string
		var times int
		if err := rows.Scan(&note, &token, &times); err != nil {
			t.Fatal(err)
		}
		if found := fmt.Sprint(times, " with token ", token); found != left[note] {
			t.Errorf("the table holds rows of %q: %s, want %q", note, found, left[note])
		}
		delete(left, note)
	}
	if rows.Err() != nil || len(left) > 0 {
		t.Errorf("the table lacks %v, %v", left, rows.Err())
	}
}

// goProgram builds the Go program in a directory.
func goProgram(t *testing.T, dir string) ([]string, error) {
	binary := filepath.Join(t.TempDir(), dir)
	if out, err := exec.Command("go", "build", "-o", binary, "./"+dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build ./%s: %w\n%s", dir, err, out)
	}
	return []string{binary}, nil
}

// javaVersion is the major version of the java in PATH, 0 for none.
func javaVersion() int {
	out, _ := exec.Command("java", "--version").Output()
	fields := strings.Fields(string(out))
	if len(fields) < 2 {
		return 0
	}
	major, _, _ := strings.Cut(fields[1], ".")
	n, _ := strconv.Atoi(major)
	return n
}
