// Package auth tests logins that the proxy terminates (auth: scram), between real clients and a real PostgreSQL: whom it
// lets in, and that it says what PostgreSQL would say.
package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
	"github.com/fenceproxy/fenceproxy/test/tlstest"
)

func TestMain(m *testing.M) { pgtest.Main(m, proxytest.Cleanup) }

const password = "correct horse"

const roles = `
SET password_encryption = 'scram-sha-256';
CREATE ROLE app LOGIN PASSWORD '` + password + `'; CREATE ROLE trusted LOGIN PASSWORD '` + password + `';
CREATE ROLE wantsmd5 LOGIN PASSWORD '` + password + `'; CREATE ROLE wantsclear LOGIN PASSWORD '` + password + `';
CREATE ROLE expired LOGIN PASSWORD '` + password + `' VALID UNTIL '2001-01-01';
CREATE ROLE forever LOGIN PASSWORD '` + password + `' VALID UNTIL 'infinity';
CREATE ROLE nologin NOLOGIN PASSWORD '` + password + `'; CREATE ROLE nopassword LOGIN;
CREATE ROLE unwanted LOGIN PASSWORD '` + password + `';
SET password_encryption = 'md5'; CREATE ROLE oldhash LOGIN PASSWORD '` + password + `';`

var hba = []string{
	"local all all trust",
	"host all postgres 127.0.0.1/32 trust",
	"host all trusted 127.0.0.1/32 trust",
	"host all wantsclear 127.0.0.1/32 password",
	"host all unwanted 127.0.0.1/32 reject",
	"host all all 127.0.0.1/32 scram-sha-256",
}

// world is a server with TLS and SCRAM, and what its certificate was made of.
type world struct {
	*pgtest.Cluster
	*tlstest.Authority
}

func newWorld(t testing.TB, opts ...pgtest.Option) *world {
	t.Helper()
	a := tlstest.NewAuthority(t)
	pair := a.Server(t, "postgresql", "localhost")
	w := &world{Authority: a}
	w.Cluster = pgtest.Start(t, append([]pgtest.Option{pgtest.WithTLS(pair.Cert, pair.Key, ""), pgtest.WithHBA(hba...)}, opts...)...)
	w.Exec(t, "postgres", roles)
	return w
}

// start is a proxy that terminates logins.
func (w *world) start(t testing.TB, upstreamTLS string, flags ...string) *proxytest.Proxy {
	t.Helper()
	dsn := fmt.Sprintf("host=localhost port=%d dbname=postgres user=postgres sslmode=%s", w.Port(), upstreamTLS)
	if upstreamTLS == "verify-full" {
		dsn += " sslrootcert=" + w.File
	}
	return proxytest.Start(t, dsn, append([]string{"--mode", "off", "--auth", "scram"}, flags...)...)
}

func (w *world) tls(t testing.TB) []string {
	own := w.Server(t, "proxy", "localhost")
	return []string{"--tls-mode", "allow", "--tls-cert", own.Cert, "--tls-key", own.Key}
}

// login is a connection string that libpq, pgx and lib/pq read.
func login(addr, user, secret string, settings ...string) string {
	_, port, _ := net.SplitHostPort(addr)
	s := "host=localhost port=" + port + " dbname=postgres connect_timeout=20 user=" + user + " password='" + secret + "' " + strings.Join(settings, " ")
	if !strings.Contains(s, "sslmode=") {
		s += " sslmode=disable"
	}
	return s
}

const who = "SELECT current_user"

// psql is libpq.
func psql(t testing.TB, dsn string) (out string, ok bool) {
	t.Helper()
	cmd := exec.Command("psql", "-X", "-A", "-t", "-w", "-c", who, dsn)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C")
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b)), err == nil
}

func viaPgx(t testing.TB, dsn string) (out string, ok bool) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err.Error(), false
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, who).Scan(&out); err != nil {
		return err.Error(), false
	}
	return out, true
}

func viaPq(t testing.TB, dsn string) (out string, ok bool) {
	t.Helper()
	c, err := pq.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	defer db.Close()
	if err := db.QueryRow(who).Scan(&out); err != nil {
		return err.Error(), false
	}
	return out, true
}

// verifier is what PostgreSQL keeps of a password.
func (w *world) verifier(t testing.TB, user string) (text string) {
	t.Helper()
	conn := w.Connect(t, "postgres", "postgres")
	if err := conn.QueryRow(context.Background(), "SELECT rolpassword FROM pg_authid WHERE rolname = $1", user).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}
