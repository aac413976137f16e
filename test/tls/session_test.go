package tls

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/proxytest"
	"github.com/fenceproxy/fenceproxy/test/tlstest"
)

// through is a DSN for pgx that leads through the proxy with TLS.
func (w *world) through(p *proxytest.Proxy, settings ...string) string {
	_, port, _ := net.SplitHostPort(p.Addr())
	return fmt.Sprintf("host=localhost port=%s dbname=postgres sslmode=verify-full sslrootcert=%s %s", port, w.File, strings.Join(settings, " "))
}

// I2 over TLS on both legs and the control connection: a takeover shuts the former holder out.
func TestFenceOverTLS(t *testing.T) {
	w := newWorld(t)
	w.Exec(t, "postgres", "CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL); INSERT INTO acct VALUES (1, 0); GRANT ALL ON acct TO anyway")
	proxytest.Install(t, w.DSN("postgres", "postgres"))
	p := proxytest.Start(t, upstream(w.Cluster, "sslmode=verify-full", "sslrootcert="+w.File),
		tlsFlags(w.pair, "--tls-mode", "require", "--tls-channel-binding", "same-certificate", "--fence", "acct=acct")...)
	ctx := context.Background()
	old := connect(t, w.through(p, "user=anyway", "fence.token=34"))
	if _, err := old.Exec(ctx, "UPDATE acct SET bal = bal + 1"); err != nil {
		t.Fatal(err)
	}
	holder := connect(t, w.through(p, "user=anyway", "fence.token=35"))
	if _, err := holder.Exec(ctx, "UPDATE acct SET bal = bal + 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec(ctx, "UPDATE acct SET bal = bal + 100"); code(err) != "ZF001" {
		t.Errorf("stale: %v", err)
	}
	if _, err := pgx.Connect(ctx, w.through(p, "user=anyway", "fence.token=34")); code(err) != "ZF001" {
		t.Errorf("stale at login: %v", err)
	}
	var balance int
	if err := w.Connect(t, "postgres", "postgres").QueryRow(ctx, "SELECT bal FROM acct").Scan(&balance); err != nil || balance != 2 {
		t.Errorf("balance %d, %v", balance, err)
	}
	if got, ok := psql(t, conninfo(p.Addr(), "user=anyway", "sslmode=disable"), "SELECT 1"); ok || !strings.Contains(got, "this server accepts connections with TLS only") {
		t.Errorf("in plain text: %s", got)
	}
}

// A cancel request takes the same ways as sessions.
func TestCancelOverTLS(t *testing.T) {
	w := newWorld(t)
	p := relay(t, upstream(w.Cluster, "sslmode=verify-full", "sslrootcert="+w.File), tlsFlags(w.pair, "--tls-channel-binding", "same-certificate")...)
	conn := connect(t, w.through(p, "user=tlsonly"))
	ctx := context.Background()
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "SELECT pg_sleep(60)")
		done <- err
	}()
	busy := w.Connect(t, "postgres", "postgres")
	eventually(t, "it sleeps", func() (sleeps bool) {
		if err := busy.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')").Scan(&sleeps); err != nil {
			t.Fatal(err)
		}
		return sleeps
	})
	if err := conn.PgConn().CancelRequest(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; code(err) != "57014" {
		t.Errorf("got %v", err)
	}
	if n := p.Metric(t, "fenceproxy_cancels_total", `relayed="true"`); n != 1 {
		t.Errorf("%v cancels", n)
	}
}

// Direct TLS of a client, and certificates of clients.
func TestClientsOfTheProxy(t *testing.T) {
	w := newWorld(t)
	app, other := w.Client(t, "anyway"), w.Client(t, "other")
	p := relay(t, upstream(w.Cluster, "sslmode=disable"), tlsFlags(w.pair, "--tls-mode", "require", "--tls-client-cert", "verify-full", "--tls-client-ca", w.File)...)
	as := func(cert, key string) []string {
		return []string{"user=anyway", "sslmode=verify-full", "sslrootcert=" + w.File, "sslcert=" + cert, "sslkey=" + key}
	}
	if got, ok := psql(t, conninfo(p.Addr(), as(app.Cert, app.Key)...), encrypted); !ok || got != "plain" {
		t.Errorf("with its certificate: %s", got)
	}
	if got, ok := psql(t, conninfo(p.Addr(), as(other.Cert, other.Key)...), encrypted); ok || !strings.Contains(got, `certificate authentication failed for user "anyway"`) {
		t.Errorf("with another's: %s", got)
	}
	if got, ok := psql(t, conninfo(p.Addr(), "user=anyway", "sslmode=verify-full", "sslrootcert="+w.File), encrypted); ok || !strings.Contains(got, "connection requires a valid client certificate") {
		t.Errorf("without: %s", got)
	}
	direct := w.through(p, "user=anyway", "sslnegotiation=direct", "sslcert="+app.Cert, "sslkey="+app.Key)
	if got, ok := pgxSays(direct, encrypted); !ok {
		t.Errorf("direct: %s", got)
	}
}

// Much data both ways at a time: neither leg may wait for the other.
func TestBulkOverTLS(t *testing.T) {
	w := newWorld(t)
	w.Exec(t, "postgres", "CREATE TABLE bulk (v text); GRANT ALL ON bulk TO anyway")
	p := relay(t, upstream(w.Cluster, "sslmode=require"), tlsFlags(w.pair, "--tls-channel-binding", "same-certificate")...)
	conn := connect(t, w.through(p, "user=anyway"))
	ctx := context.Background()
	const rows = 200_000
	line := strings.Repeat("x", 99) + "\n"
	if _, err := conn.PgConn().CopyFrom(ctx, strings.NewReader(strings.Repeat(line, rows)), "COPY bulk FROM STDIN"); err != nil {
		t.Fatal(err)
	}
	var out counter
	if _, err := conn.PgConn().CopyTo(ctx, &out, "COPY bulk TO STDOUT"); err != nil || int(out) != rows*len(line) {
		t.Fatalf("%d bytes, %v", out, err)
	}
	// a pipeline whose replies are not read before all of it is sent
	batch := &pgconn.Batch{}
	for range 2000 {
		batch.ExecParams("SELECT repeat('x', 10000)", nil, nil, nil, nil)
	}
	results, err := conn.PgConn().ExecBatch(ctx, batch).ReadAll()
	if err != nil || len(results) != 2000 {
		t.Fatalf("%d results, %v", len(results), err)
	}
}

type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// SIGHUP: a new certificate is for connections to come; those that are open go on. Files that do not fit change nothing.
func TestReloadOfTheCertificate(t *testing.T) {
	w := newWorld(t)
	next := tlstest.NewAuthority(t)
	first, second := w.Server(t, "proxy", "localhost"), next.Server(t, "proxy", "localhost")
	p := relay(t, upstream(w.Cluster, "sslmode=disable"), tlsFlags(first)...)
	ctx := context.Background()
	open := connect(t, w.through(p, "user=anyway"))
	replace := func(to, from string) {
		t.Helper()
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trusted := func(root string) bool {
		_, ok := psql(t, conninfo(p.Addr(), "user=anyway", "sslmode=verify-full", "sslrootcert="+root), "SELECT 1")
		return ok
	}
	replace(first.Cert, second.Cert) // and not its key
	p.Signal(syscall.SIGHUP)
	eventually(t, "the reload has failed", func() bool { return strings.Contains(p.Log(), "private key does not match") })
	if !trusted(w.File) {
		t.Error("a reload that failed took the certificate away")
	}
	replace(first.Key, second.Key)
	p.Signal(syscall.SIGHUP)
	eventually(t, "the new certificate is presented", func() bool { return trusted(next.File) })
	if trusted(w.File) {
		t.Error("the former certificate is still presented")
	}
	if _, err := open.Exec(ctx, "SELECT 1"); err != nil {
		t.Errorf("a session of before: %v", err)
	}
}

// eventually polls a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
