package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// A token that can be seen to be wrong is refused where it is presented, at connect by every way a parameter can come
// and at SET, and nothing is raised by it.
func TestWrongTokenIsRefusedWhereItIsPresented(t *testing.T) {
	c := pgtest.Shared(t)
	db := fenced(t, c)
	p := proxytest.Start(t, c.DSN(db, "postgres"), formFences...)
	p.Connect(t, db, user, "billing=100")
	tests := []struct{ name, token, want string }{
		{"garbage", "12x", "ZF003"},
		{"a sign", "billing=+5", "ZF003"},
		{"negative", "billing=-5", "ZF003"},
		{"over int64", "billing=9223372036854775808", "ZF003"},
		{"a word", "billing=abc", "ZF003"},
		{"no value", "billing=", "ZF003"},
		{"unknown fence", "nosuch=5", "ZF003"},
		{"one good, one unknown", "billing=200,nosuch=5", "ZF003"},
		{"the same fence twice", "billing=200,billing=201", "ZF003"},
		{"bare with several fences", "200", "ZF003"},
		{"a jump over the limit", "billing=5000000000", "ZF003"},
		{"another epoch", "billing=1.200", "ZF003"},
		{"stale", "billing=99", "ZF001"},
	}
	with := func(name, value string) (*pgx.Conn, error) {
		config, err := pgx.ParseConfig(p.DSN(db, user))
		if err != nil {
			return nil, err
		}
		config.RuntimeParams[name] = value
		return pgx.ConnectConfig(context.Background(), config)
	}
	ways := map[string]func(token string) (*pgx.Conn, error){
		"startup parameter": func(token string) (*pgx.Conn, error) { return p.TryConnect(db, user, token) },
		"options":           func(token string) (*pgx.Conn, error) { return with("options", "-c fence.token="+token) },
		"long option":       func(token string) (*pgx.Conn, error) { return with("options", "--fence.token="+token) },
		"option in pieces":  func(token string) (*pgx.Conn, error) { return with("options", `-c work_mem=4MB -cfence\.token=`+token) },
		"name in capitals":  func(token string) (*pgx.Conn, error) { return with("Fence.TOKEN", token) },
	}
	for _, test := range tests {
		for way, connect := range ways {
			conn, err := connect(test.token)
			if code(err) != test.want {
				t.Errorf("%s by %s: %v, want %s", test.name, way, err, test.want)
			}
			if err == nil {
				conn.Close(context.Background())
			}
		}
		conn := p.Connect(t, db, user, "")
		for _, set := range []string{
			"SET fence.token = '%s'", "SET SESSION fence.token TO '%s'", `SET "fence"."token" = '%s'`, "SET Fence.Token = E'%s'",
			"SELECT set_config('fence.token', '%s', false)", "SELECT pg_catalog.set_config('FENCE.token', '%s', false)",
		} {
			sql := fmt.Sprintf(set, test.token)
			if got := run(conn, sql); got != test.want {
				t.Errorf("%s: %s: SQLSTATE %q, want %s", test.name, sql, got, test.want)
			}
			if got := run(conn, "BEGIN; "+sql); got != test.want {
				t.Errorf("%s: in a transaction: %s: SQLSTATE %q, want %s", test.name, sql, got, test.want)
			}
			must(t, conn, "ROLLBACK")
		}
	}
	direct := c.Connect(t, db, "postgres")
	if mark := number(t, direct, "SELECT token FROM fence.mark WHERE name = 'billing'"); mark != 100 {
		t.Errorf("the mark went to %d", mark)
	}
	if n := number(t, direct, "SELECT count(*) FROM fence.mark"); n != 1 {
		t.Errorf("%d marks", n)
	}
}

// A password never, and a literal never, reaches the proxy's log.
func TestLogHoldsNoLiterals(t *testing.T) {
	_, db, p := start(t, "--log-level", "debug")
	conn := p.Connect(t, db, user, "33")
	p.Connect(t, db, user, "34")
	const secret = "s3cr3t-literal"
	for _, sql := range []string{
		"UPDATE acct SET bal = length('" + secret + "')", "SELECT '" + secret + "' FROM nosuch", "UPDATE acct SET '" + secret + "'",
		"SET fence.token = '" + secret + "'", "INSERT INTO acct VALUES (1, '" + secret + "')", "DO $$ BEGIN PERFORM '" + secret + "'; END $$",
	} {
		run(conn, sql)
	}
	if strings.Contains(p.Log(), secret) {
		t.Errorf("the log holds a literal:\n%s", p.Log())
	}
}
