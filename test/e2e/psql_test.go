package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// psql runs psql with a PGOPTIONS value and an input; it prints SQLSTATEs.
func psql(t *testing.T, c *pgtest.Cluster, dsn, options, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command(c.Program("psql"), append([]string{"-X", "-q", "-A", "-t", "-v", "VERBOSITY=verbose", "-d", dsn}, args...)...)
	cmd.Env = append(os.Environ(), "PGOPTIONS="+options, "LC_ALL=C")
	cmd.Stdin = strings.NewReader(input)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func TestPsql(t *testing.T) {
	c, db, p := start(t)
	dsn := p.DSN(db, user)
	p.Connect(t, db, user, "34")
	file := t.TempDir() + "/rows"
	if err := os.WriteFile(file, []byte("50\t1\n51\t1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const count = "SELECT count(*) FROM acct WHERE id >= 50;"
	for _, test := range []struct {
		name, options, input string
		args                 []string
		want                 string // regular expression
	}{
		{"token by PGOPTIONS", "-c fence.token=34", "UPDATE acct SET bal = 1 WHERE id = 1 RETURNING bal;", nil, `^1\n$`},
		{"token by PGOPTIONS, stale", "-c fence.token=33", "SELECT 1;", nil, `FATAL: .*33.*34`},
		{"no token", "", "UPDATE acct SET bal = 2; SELECT 'then';", nil, `ERROR:  ZF002: (?s:.*)then\n$`},
		{"token by SET", "", "SET fence.token = '34';\nUPDATE acct SET bal = 3 WHERE id = 1 RETURNING bal;", nil, `^3\n$`},
		{"stale SET", "", "SET fence.token = '33';", nil, `ERROR:  ZF001: `},
		{"several statements in one string", "-c fence.token=34", "", []string{"-c", "UPDATE acct SET bal = 4 WHERE id = 1; SELECT bal FROM acct WHERE id = 1"}, `^4\n$`},
		{"one transaction", "-c fence.token=34", "UPDATE acct SET bal = 5 WHERE id = 1;\nSELECT bal FROM acct WHERE id = 1;", []string{"-1"}, `^5\n$`},
		{"COPY FROM STDIN", "-c fence.token=34", "COPY acct FROM STDIN;\n50\t1\n51\t1\n\\.\n" + count, nil, `^2\n$`},
		{"COPY FROM STDIN without a token", "", "COPY acct FROM STDIN;\n", nil, `ZF002`},
		{"DELETE", "-c fence.token=34", "DELETE FROM acct WHERE id >= 50;" + count, nil, `^0\n$`},
		{`\copy`, "-c fence.token=34", `\copy acct from '` + file + "'\n" + count, nil, `^2\n$`},
		{`\copy without a token`, "", `\copy acct from '` + file + "'\n" + count, nil, `ZF002(?s:.*)2\n$`},
		{"error position", "-c fence.token=34", "SELECT 'é'; UPDATE acct SET nope = 1;", []string{"-v", "SHOW_CONTEXT=always"}, `LINE 1: UPDATE acct SET nope = 1;\n {24}\^`},
		{"error position in one string", "-c fence.token=34", "", []string{"-c", "UPDATE acct SET bal = 1 WHERE id = 1; UPDATE acct SET nope = 1"}, `LINE 1: \.{3}.*UPDATE acct SET nope = 1\n +\^`},
		{"\\d", "", `\d acct`, nil, `bal\|integer`},
		{"\\gdesc", "-c fence.token=34", "UPDATE acct SET bal = 6 WHERE id = 1 RETURNING bal \\gdesc", nil, `bal\|integer`},
		{"\\bind", "-c fence.token=34", "SELECT 1 \\g", nil, `^1\n$`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if out := psql(t, c, dsn, test.options, test.input, test.args...); !regexp.MustCompile(test.want).MatchString(out) {
				t.Errorf("printed %q\nwant     %s", out, test.want)
			}
		})
	}
}

// pgbench: its tables are made through the proxy under a token, and its own script runs in all three protocols; a run
// whose token has become stale dies with ZF001's text.
func TestPgbench(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	c.Exec(t, db, "GRANT CREATE ON SCHEMA public TO teller")
	p := proxytest.Start(t, c.DSN(db, "postgres"), "--fence", "bank=pgbench_accounts,pgbench_tellers,pgbench_branches,pgbench_history")
	pgbench := func(options string, args ...string) (string, error) {
		cmd := exec.Command(c.Program("pgbench"), append(args, p.DSN(db, user))...)
		cmd.Env = append(os.Environ(), "PGOPTIONS="+options, "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// pgbench -i drops its tables first, which is refused on fenced ones: -I leaves that step out.
	if out, err := pgbench("-c fence.token=1", "-i", "-I", "tgvp", "-s", "1"); err != nil {
		t.Fatalf("pgbench -i: %v\n%s", err, out)
	}
	for _, mode := range []string{"simple", "extended", "prepared"} {
		out, err := pgbench("-c fence.token=2", "-n", "-M", mode, "-c", "4", "-t", "50")
		if err != nil || !strings.Contains(out, "number of transactions actually processed: 200/200") {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
		if out, err := pgbench("", "-n", "-M", mode, "-c", "1", "-t", "1"); err == nil || !strings.Contains(out, "requires a fencing token") {
			t.Errorf("%s without a token: %v\n%s", mode, err, out)
		}
		if out, err := pgbench("", "-n", "-S", "-M", mode, "-c", "4", "-t", "50"); err != nil {
			t.Errorf("%s, reads without a token: %v\n%s", mode, err, out)
		}
		if out, err := pgbench("-c fence.token=1", "-n", "-M", mode, "-c", "1", "-t", "1"); err == nil || !strings.Contains(out, "stale") {
			t.Errorf("%s, stale: %v\n%s", mode, err, out)
		}
	}
	direct := c.Connect(t, db, "postgres")
	if n := number(t, direct, "SELECT count(*) FROM pgbench_history"); n != 600 {
		t.Errorf("%d rows of history; want those of the holder's 600 transactions alone", n)
	}
}
