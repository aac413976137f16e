package auth

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

var drivers = map[string]func(testing.TB, string) (string, bool){"psql": psql, "pgx": viaPgx, "lib/pq": viaPq}

// Each way of two legs, each client, with channel binding where the client's leg can have it.
func TestScramByLegs(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		w := newWorld(t, pgtest.WithInstallation(i))
		secret := w.verifier(t, "app")
		for _, server := range []string{"disable", "verify-full"} {
			plain, secure := w.start(t, server), w.start(t, server, w.tls(t)...)
			for name, connect := range drivers {
				if got, ok := connect(t, login(plain.Addr(), "app", password)); !ok || got != "app" {
					t.Errorf("plain, %s: %s: %s", server, name, got)
				}
				bindings := []string{"disable", "prefer", "require"}
				if name == "lib/pq" {
					bindings = []string{""}
				}
				for _, b := range bindings {
					more := "sslmode=verify-full sslrootcert=" + w.File
					if b != "" {
						more += " channel_binding=" + b
					}
					if got, ok := connect(t, login(secure.Addr(), "app", password, more)); !ok || got != "app" {
						t.Errorf("TLS, %s: %s, channel_binding=%s: %s", server, name, b, got)
					}
				}
				if got, ok := connect(t, login(secure.Addr(), "app", "wrong", "sslmode=verify-full", "sslrootcert="+w.File)); ok || !strings.Contains(got, `password authentication failed for user "app"`) {
					t.Errorf("TLS, %s: %s, wrong password: %s", server, name, got)
				}
			}
			if got, ok := psql(t, login(plain.Addr(), "app", password, "channel_binding=require")); ok {
				t.Errorf("plain, %s: %s bound", server, got)
			}
			for _, p := range []*proxytest.Proxy{plain, secure} {
				for _, secret := range append(regexp.MustCompile(`[$:]`).Split(secret, -1)[2:], password) {
					if strings.Contains(p.Log(), secret) {
						t.Errorf("the log holds %q", secret)
					}
				}
			}
		}
	})
}

// The proxy says what PostgreSQL says: the same SQLSTATE, message and detail, for each kind of user and each password.
func TestScramRefusalsAreThoseOfPostgreSQL(t *testing.T) {
	w := newWorld(t)
	p := w.start(t, "disable")
	for _, user := range []string{"app", "forever", "expired", "nologin", "nopassword", "nobody", "oldhash", "unwanted", `a"b`} {
		for _, secret := range []string{password, "wrong"} {
			direct, _ := viaPgx(t, login(w.Addr(), user, secret))
			got, _ := viaPgx(t, login(p.Addr(), user, secret))
			if said(got) != said(direct) {
				t.Errorf("%s, %s: %q, directly %q", user, secret, said(got), said(direct))
			}
		}
	}
	// Users by whom the proxy cannot log in: they are known to the client first.
	for user, want := range map[string]string{"wantsclear": "28000", "trusted": ""} {
		got, ok := viaPgx(t, login(p.Addr(), user, password))
		if ok != (want == "") || !ok && !strings.Contains(got, "SQLSTATE "+want) {
			t.Errorf("%s: %s", user, got)
		}
		if got, ok := viaPgx(t, login(p.Addr(), user, "wrong")); ok || !strings.Contains(got, "SQLSTATE 28P01") {
			t.Errorf("%s, wrong password: %s", user, got)
		}
	}
	logged(t, p, "a password in clear text", 0)
}

// logged waits until the log says something more often than before: what the proxy writes arrives a little later.
func logged(t testing.TB, p *proxytest.Proxy, says string, before int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); strings.Count(p.Log(), says) <= before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log does not say %q", says)
		}
	}
}

// said is what a server has said, without where it was said.
func said(text string) string {
	if i := strings.Index(text, "FATAL:"); i >= 0 {
		return text[i:]
	}
	return text
}

// Nobody learns from the challenge whether a user exists: it is the same each time, and PostgreSQL's own.
func TestScramChallengeOfUnknownUsers(t *testing.T) {
	w := newWorld(t)
	p := w.start(t, "disable")
	for _, user := range []string{"app", "nobody", "expired", "nopassword", "oldhash"} {
		first, again, direct := challenge(t, p.Addr(), user), challenge(t, p.Addr(), user), challenge(t, w.Addr(), user)
		if first != again || first != direct {
			t.Errorf("%s: %q, then %q, directly %q", user, first, again, direct)
		}
	}
	if challenge(t, p.Addr(), "nobody") == challenge(t, p.Addr(), "somebody") {
		t.Error("two users have one salt")
	}
}

// A change of the password is noticed at the next login, also while the former verifier is remembered.
func TestScramPasswordChanges(t *testing.T) {
	w := newWorld(t)
	p := w.start(t, "disable")
	try := func(what, secret string, want bool) {
		t.Helper()
		if got, ok := viaPgx(t, login(p.Addr(), "app", secret)); ok != want {
			t.Errorf("%s, %s: %s", what, secret, got)
		}
	}
	try("at first", password, true)
	w.Exec(t, "postgres", "ALTER ROLE app PASSWORD 'another'")
	try("changed", "another", true)
	try("changed", password, false)
	w.Exec(t, "postgres", "ALTER ROLE app VALID UNTIL '2001-01-01'")
	try("expired", "another", false)
	w.Exec(t, "postgres", "ALTER ROLE app VALID UNTIL 'infinity'")
	w.Exec(t, "postgres", "ALTER ROLE app PASSWORD NULL")
	try("none", "another", false)
}

// Verifiers of a file, in pgbouncer's format, read again by SIGHUP; a file that is wrong changes nothing.
func TestScramFile(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "userlist.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("; users\n%q %q\n%q %q\n", "app", w.verifier(t, "app"), "forever", w.verifier(t, "app")))
	p := w.start(t, "disable", "--auth-file", file)
	if got, ok := psql(t, login(p.Addr(), "app", password)); !ok {
		t.Error(got)
	}
	if got, ok := viaPgx(t, login(p.Addr(), "trusted", password)); ok || !strings.Contains(got, "28P01") {
		t.Errorf("a user who is not in the file: %s", got)
	}
	// the right password by the file, but PostgreSQL has another salt
	if got, ok := viaPgx(t, login(p.Addr(), "forever", password)); ok || !strings.Contains(got, "SQLSTATE 28000") {
		t.Errorf("another verifier than PostgreSQL's: %s", got)
	}
	logged(t, p, "salt or iterations differ", 0)
	reload := func(text, says string) {
		t.Helper()
		write(text)
		before := strings.Count(p.Log(), says)
		p.Signal(syscall.SIGHUP)
		logged(t, p, says, before)
	}
	reload("app", "configuration not reloaded")
	if got, ok := viaPgx(t, login(p.Addr(), "app", password)); !ok {
		t.Errorf("after a wrong file: %s", got)
	}
	reload(fmt.Sprintf("%q %q\n", "trusted", w.verifier(t, "trusted")), "configuration reloaded")
	for user, want := range map[string]bool{"app": false, "trusted": true} {
		if got, ok := viaPgx(t, login(p.Addr(), user, password)); ok != want {
			t.Errorf("after a reload, %s: %s", user, got)
		}
	}
}

// A query that cannot be asked is no wrong password, and nothing waits for ever.
func TestScramQueryFails(t *testing.T) {
	w := newWorld(t)
	for name, flags := range map[string][]string{
		"refused": {"--auth-query", "SELECT usename, no_such_column FROM pg_shadow WHERE usename = $1"},
		"shape":   {"--auth-query", "SELECT passwd FROM pg_shadow WHERE usename = $1"},
		"others":  {"--auth-query", "SELECT usename, passwd FROM pg_shadow WHERE usename <> $1"},
		"down":    {"--control", "host=127.0.0.1 port=1 user=postgres dbname=postgres sslmode=disable"},
		"slow":    {"--auth-query", "SELECT $1::text, pg_sleep(60)::text"},
	} {
		p := w.start(t, "disable", flags...)
		begin := time.Now()
		if got, ok := viaPgx(t, login(p.Addr(), "app", password)); ok || !strings.Contains(got, "SQLSTATE 57P03") {
			t.Errorf("%s: %s", name, got)
		}
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
	// The connection of the query ends with its server; the next login opens another.
	p := w.start(t, "disable")
	if got, ok := viaPgx(t, login(p.Addr(), "app", password)); !ok {
		t.Fatal(got)
	}
	w.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'fenceproxy'")
	if got, ok := viaPgx(t, login(p.Addr(), "forever", password)); !ok {
		t.Errorf("after the end of the query's connection: %s", got)
	}
}

// The session is the one that PostgreSQL gives: parameters, key for cancel requests, and the fence holds in it.
func TestScramSession(t *testing.T) {
	w := newWorld(t)
	p := w.start(t, "disable")
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, login(p.Addr(), "app", password, "application_name=x"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if v := conn.PgConn().ParameterStatus("application_name"); v != "x" || conn.PgConn().ParameterStatus("server_version") == "" {
		t.Errorf("application_name %q", v)
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		conn.PgConn().CancelRequest(ctx)
	}()
	if _, err := conn.Exec(ctx, "SELECT pg_sleep(30)"); err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("cancel: %v", err)
	}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			secret := password
			if i%4 == 0 {
				secret = "wrong"
			}
			if got, ok := viaPgx(t, login(p.Addr(), "app", secret)); ok != (secret == password) {
				t.Error(got)
			}
		})
	}
	all.Wait()
}

var salt = regexp.MustCompile(`s=([^,]*),i=(\d+)`)

// challenge is salt and iterations that a server names for a user.
func challenge(t *testing.T, addr, user string) string {
	t.Helper()
	text := string(converse(t, addr, user, "n,,n=,r=abc"))
	m := salt.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s: got %q", user, text)
	}
	if b, err := base64.StdEncoding.DecodeString(m[1]); err != nil || len(b) != 16 {
		t.Fatalf("%s: salt %q", user, m[1])
	}
	return m[1] + " " + m[2]
}
