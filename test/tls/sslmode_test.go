package tls

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/tlstest"
)

// The words of sslmode do on the proxy's leg what they do in libpq, and in pgx, which makes the control connection.
func TestSSLModeIsLibpqs(t *testing.T) {
	w := newWorld(t)
	plain := pgtest.Start(t, pgtest.WithHBA(hba...))
	plain.Exec(t, "postgres", roles)
	stranger := tlstest.NewAuthority(t)
	right, wrong := "sslrootcert="+w.File, "sslrootcert="+stranger.File
	t.Setenv("HOME", home())
	for _, tc := range []struct {
		name     string
		cluster  *pgtest.Cluster
		settings []string
	}{
		{"disable", w.Cluster, []string{"sslmode=disable"}},
		{"allow", w.Cluster, []string{"sslmode=allow"}},
		{"default", w.Cluster, nil},
		{"prefer", w.Cluster, []string{"sslmode=prefer"}},
		{"require", w.Cluster, []string{"sslmode=require"}},
		{"require with the root", w.Cluster, []string{"sslmode=require", right}},
		{"require with a wrong root", w.Cluster, []string{"sslmode=require", wrong}},
		{"verify-ca", w.Cluster, []string{"sslmode=verify-ca", right}},
		{"verify-ca with a wrong root", w.Cluster, []string{"sslmode=verify-ca", wrong}},
		{"verify-full", w.Cluster, []string{"sslmode=verify-full", right}},
		{"verify-full with a wrong root", w.Cluster, []string{"sslmode=verify-full", wrong}},
		{"verify-full of the system", w.Cluster, []string{"sslmode=verify-full", "sslrootcert=system"}},
		{"server without TLS, disable", plain, []string{"sslmode=disable"}},
		{"server without TLS, allow", plain, []string{"sslmode=allow"}},
		{"server without TLS, prefer", plain, []string{"sslmode=prefer"}},
		{"server without TLS, require", plain, []string{"sslmode=require"}},
		{"server without TLS, verify-full", plain, []string{"sslmode=verify-full", right}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := relay(t, upstream(tc.cluster, tc.settings...))
			for _, user := range []string{"anyway", "tlsonly", "plainonly"} {
				as := append([]string{"user=" + user}, tc.settings...)
				want, worked := psql(t, conninfo(tc.cluster.Addr(), as...), encrypted)
				if got, ok := psql(t, conninfo(p.Addr(), "user="+user, "sslmode=disable"), encrypted); ok != worked || ok && got != want {
					t.Errorf("%s through the proxy: %s\nlibpq: %s", user, got, want)
				}
				if got, ok := pgxSays(upstream(tc.cluster, as...), encrypted); ok != worked || ok && got != want {
					t.Errorf("%s by pgx: %s\nlibpq: %s", user, got, want)
				}
			}
		})
	}
}

// verify-full looks at the name, verify-ca does not.
func TestHostNameIsVerified(t *testing.T) {
	w := newWorld(t)
	other := w.Server(t, "elsewhere", "elsewhere.example")
	elsewhere := pgtest.Start(t, pgtest.WithTLS(other.Cert, other.Key, ""), pgtest.WithHBA(hba...))
	elsewhere.Exec(t, "postgres", roles)
	for mode, want := range map[string]bool{"verify-ca": true, "verify-full": false} {
		p := relay(t, upstream(elsewhere, "sslmode="+mode, "sslrootcert="+w.File))
		if got, ok := psql(t, conninfo(p.Addr(), "user=anyway", "sslmode=disable"), encrypted); ok != want {
			t.Errorf("%s: %s", mode, got)
		}
	}
}

// The proxy's own certificate for the server: sslcert and sslkey of the upstream.
func TestCertificateForTheServer(t *testing.T) {
	w := newWorld(t)
	app := w.Client(t, "named")
	with := relay(t, upstream(w.Cluster, "sslmode=verify-full", "sslrootcert="+w.File, "sslcert="+app.Cert, "sslkey="+app.Key))
	without := relay(t, upstream(w.Cluster, "sslmode=verify-full", "sslrootcert="+w.File))
	for _, user := range []string{"certified", "named"} {
		if got, ok := psql(t, conninfo(with.Addr(), "user="+user, "sslmode=disable"), encrypted); !ok || got != "TLS" {
			t.Errorf("%s with a certificate: %s", user, got)
		}
		if got, ok := psql(t, conninfo(without.Addr(), "user="+user, "sslmode=disable"), encrypted); ok {
			t.Errorf("%s without: %s", user, got)
		}
	}
}

// sslnegotiation=direct, which PostgreSQL knows since 17.
func TestDirectToTheServer(t *testing.T) {
	pgtest.EachVersion(t, func(t *testing.T, i pgtest.Installation) {
		w := newWorld(t, pgtest.WithInstallation(i))
		dsn := upstream(w.Cluster, "sslmode=verify-full", "sslrootcert="+w.File, "sslnegotiation=direct")
		got, ok := psql(t, conninfo(relay(t, dsn).Addr(), "user=tlsonly", "sslmode=disable"), encrypted)
		if knows := i.Major >= 17; ok != knows {
			t.Errorf("%v: %s", ok, got)
		}
	})
}
