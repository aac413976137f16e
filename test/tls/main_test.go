// Package tls tests TLS between real clients, the built proxy and a real PostgreSQL: who is let in by which way, what
// sslmode does on the leg to the server, and password exchanges that are bound to the channel.
package tls

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
	"github.com/fenceproxy/fenceproxy/test/tlstest"
)

func TestMain(m *testing.M) { pgtest.Main(m, proxytest.Cleanup) }

const password = "correct horse"

// roles of the servers here: each may log in by some ways only.
const roles = `
CREATE ROLE anyway LOGIN; CREATE ROLE tlsonly LOGIN; CREATE ROLE plainonly LOGIN; CREATE ROLE certified LOGIN;
CREATE ROLE named LOGIN; CREATE ROLE nobody LOGIN;
SET password_encryption = 'scram-sha-256'; CREATE ROLE scram LOGIN PASSWORD '` + password + `';
SET password_encryption = 'md5'; CREATE ROLE md5 LOGIN PASSWORD '` + password + `';`

var hba = []string{
	"local   all all       trust",
	"host    all postgres  127.0.0.1/32 trust",
	"host    all anyway    127.0.0.1/32 trust",
	"hostssl all tlsonly   127.0.0.1/32 trust",
	"hostnossl all plainonly 127.0.0.1/32 trust",
	"hostssl all certified 127.0.0.1/32 trust clientcert=verify-ca",
	"hostssl all named     127.0.0.1/32 cert",
	"host    all scram     127.0.0.1/32 scram-sha-256",
	"host    all md5       127.0.0.1/32 md5",
}

// world is a server with TLS, and what its certificate was made of.
type world struct {
	*pgtest.Cluster
	*tlstest.Authority
	pair tlstest.Pair // of the server
}

func newWorld(t testing.TB, opts ...pgtest.Option) *world {
	t.Helper()
	a := tlstest.NewAuthority(t)
	w := &world{Authority: a, pair: a.Server(t, "postgresql", "localhost")}
	w.Cluster = pgtest.Start(t, append([]pgtest.Option{pgtest.WithTLS(w.pair.Cert, w.pair.Key, a.File), pgtest.WithHBA(hba...)}, opts...)...)
	w.Exec(t, "postgres", roles)
	return w
}

// conninfo is a connection string of libpq.
func conninfo(addr string, settings ...string) string {
	_, port, _ := net.SplitHostPort(addr)
	return "host=localhost hostaddr=127.0.0.1 port=" + port + " dbname=postgres connect_timeout=20 " + strings.Join(settings, " ")
}

// upstream is the same for the proxy, which has no hostaddr.
func upstream(c *pgtest.Cluster, settings ...string) string {
	return fmt.Sprintf("host=localhost port=%d dbname=postgres user=postgres %s", c.Port(), strings.Join(settings, " "))
}

// relay is a proxy that only relays, so that it needs no schema, nor a control connection that works.
func relay(t testing.TB, dsn string, flags ...string) *proxytest.Proxy {
	t.Helper()
	return proxytest.Start(t, dsn, append([]string{"--mode", "off"}, flags...)...)
}

func tlsFlags(p tlstest.Pair, more ...string) []string {
	return append([]string{"--tls-mode", "allow", "--tls-cert", p.Cert, "--tls-key", p.Key}, more...)
}

// home is empty, so that no file of the user who runs the tests has a say.
var home = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "home")
	if err != nil {
		panic(err)
	}
	return dir
})

// psql runs a statement with libpq and returns its result, or what psql says of the failure.
func psql(t testing.TB, conninfo, sql string) (out string, ok bool) {
	t.Helper()
	cmd := exec.Command("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, conninfo)
	cmd.Env = append(os.Environ(), "HOME="+home(), "PGPASSWORD="+password, "LC_ALL=C")
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b)), err == nil
}

// encrypted asks the server about its own leg.
const encrypted = "SELECT CASE WHEN ssl THEN 'TLS' ELSE 'plain' END FROM pg_stat_ssl WHERE pid = pg_backend_pid()"

// pgxSays does with pgx what psql does with libpq.
func pgxSays(dsn, sql string) (out string, ok bool) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err.Error(), false
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, sql).Scan(&out); err != nil {
		return err.Error(), false
	}
	return out, true
}

// code is an error's SQLSTATE.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return fmt.Sprint(err)
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
