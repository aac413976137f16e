package config

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/test/tlstest"
)

func TestTLSSettings(t *testing.T) {
	a := tlstest.NewAuthority(t)
	pair, other := a.Server(t, "server", "localhost"), a.Server(t, "other", "localhost")
	files := fmt.Sprintf("cert: %s, key: %s", pair.Cert, pair.Key)
	for _, tc := range []struct{ name, tls, upstream, want string }{
		{"off", "", "host=db sslmode=disable", ""},
		{"allow", "mode: allow, " + files, "host=db sslmode=disable", ""},
		{"require", "mode: require, " + files, "host=db sslmode=disable", ""},
		{"clients with certificates", "mode: require, client_cert: verify-full, client_ca: " + a.File + ", " + files, "host=db sslmode=disable", ""},
		{"files that wait", "mode: disable, cert: /none", "host=db sslmode=disable", ""},
		{"no mode", files, "host=db sslmode=disable", "tls.cert without tls.mode, which is disable: set it to allow or require"},
		{"no files", "mode: allow", "host=db sslmode=disable", "tls.mode allow needs tls.cert"},
		{"no key", "mode: allow, cert: " + pair.Cert, "host=db sslmode=disable", "tls.mode allow needs tls.key"},
		{"another's key", "mode: allow, cert: " + pair.Cert + ", key: " + other.Key, "host=db sslmode=disable", "tls: tls: private key does not match public key"},
		{"no file", "mode: allow, cert: /none, key: /none", "host=db sslmode=disable", "tls: open /none: no such file or directory"},
		{"no authority", "mode: require, client_cert: verify-ca, " + files, "host=db sslmode=disable", "tls.client_cert verify-ca needs tls.client_ca"},
		{"empty authority", "mode: require, client_cert: verify-ca, client_ca: " + pair.Key + ", " + files, "host=db sslmode=disable", "tls: " + pair.Key + " holds no certificate"},
		{"certificates of some", "mode: allow, client_cert: verify-ca, client_ca: " + a.File + ", " + files, "host=db sslmode=disable", "tls.client_cert verify-ca needs tls.mode require: a client in plain text shows no certificate"},
		{"both legs", "mode: require, " + files, "host=db sslmode=require", "TLS to clients (tls.mode require) and to PostgreSQL"},
		{"both legs, perhaps", "mode: allow, " + files, "host=db", "TLS to clients (tls.mode allow) and to PostgreSQL"},
		{"both legs, one certificate", "mode: require, channel_binding: same-certificate, " + files, "host=db sslmode=require", ""},
		{"both legs, no binding", "mode: require, channel_binding: disabled, " + files, "host=db sslmode=require", ""},
		{"Unix socket to PostgreSQL", "mode: require, " + files, "host=/run/pg sslmode=require", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := load(t, "tls: {"+tc.tls+"}\nmode: off\nupstream: "+tc.upstream+"\n", nil)
			switch {
			case tc.want == "" && err != nil:
				t.Fatal(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), ": "+tc.want)):
				t.Fatalf("got %v", err)
			}
		})
	}
	if _, _, err := load(t, "tls: {mode: require, "+files+"}\nlisten: [/run/x]\nmode: off\nupstream: host=db\n", nil); err != nil {
		t.Errorf("listens on a Unix socket only: %v", err)
	}
}

// The way of the sessions is the way of the control connection, which pgx makes of the DSN itself.
func TestUpstreamTLS(t *testing.T) {
	a := tlstest.NewAuthority(t)
	client := a.Client(t, "app")
	t.Setenv("HOME", t.TempDir())
	for _, tc := range []struct {
		dsn    string
		want   UpstreamTLS
		direct bool
	}{
		{"host=db sslmode=disable", UpstreamPlain, false},
		{"host=db sslmode=allow", UpstreamAllow, false},
		{"host=db", UpstreamPrefer, false},
		{"postgres://db/x", UpstreamPrefer, false},
		{"host=db sslmode=prefer", UpstreamPrefer, false},
		{"host=db sslmode=require", UpstreamEncrypted, false},
		{"postgres://db/x?ssl=true", UpstreamEncrypted, false},
		{"host=db sslmode=verify-ca sslrootcert=" + a.File, UpstreamEncrypted, false},
		{"host=db sslmode=verify-full sslrootcert=" + a.File, UpstreamEncrypted, false},
		{"host=db sslrootcert=system", UpstreamEncrypted, false},
		{"host=db sslmode=require sslnegotiation=direct", UpstreamEncrypted, true},
		{"host=/run/pg sslmode=require", UpstreamPlain, false},
	} {
		got, err := parseUpstream(tc.dsn)
		if err != nil || got.TLS != tc.want || got.Direct != tc.direct || (got.settings == nil) != (tc.want == UpstreamPlain) {
			t.Errorf("%s: %+v %v", tc.dsn, got, err)
			continue
		}
		if s := got.settings; s != nil {
			if s.ServerName != "db" { // SNI
				t.Errorf("%s: server name %q", tc.dsn, s.ServerName)
			}
			verifies := !s.InsecureSkipVerify || s.VerifyPeerCertificate != nil
			if want := strings.Contains(tc.dsn, "verify") || strings.Contains(tc.dsn, "system"); verifies != want {
				t.Errorf("%s: verifies %v", tc.dsn, verifies)
			}
		}
	}
	for _, name := range []string{"sslcrl", "ssl_min_protocol_version", "requirepeer"} {
		if _, err := parseUpstream("host=db " + name + "=x"); err == nil {
			t.Errorf("%s accepted", name)
		}
	}

	// The certificate for the server, wherever libpq would find it.
	given := "sslmode=require sslcert=" + client.Cert + " sslkey='" + client.Key + "'"
	dir := t.TempDir()
	service := filepath.Join(dir, "services")
	if err := os.WriteFile(service, []byte("[here]\nsslcert="+client.Cert+"\nsslkey="+client.Key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".postgresql"), 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{client.Cert: "postgresql.crt", client.Key: "postgresql.key"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, ".postgresql", to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		dsn  string
		env  map[string]string
		has  bool
		fail bool
	}{
		"keywords":        {dsn: "host=db " + given, has: true},
		"URI":             {dsn: "postgres://db/x?sslmode=require&sslcert=" + strings.ReplaceAll(client.Cert, "/", "%2F") + "&sslkey=" + client.Key, has: true},
		"environment":     {dsn: "host=db sslmode=require", env: map[string]string{"PGSSLCERT": client.Cert, "PGSSLKEY": client.Key}, has: true},
		"service":         {dsn: "host=db sslmode=require service=here servicefile=" + service, has: true},
		"home":            {dsn: "host=db sslmode=require", env: map[string]string{"HOME": home}, has: true},
		"not to be sent":  {dsn: "host=db sslcertmode=disable " + given},
		"none":            {dsn: "host=db sslmode=require"},
		"must be sent":    {dsn: "host=db sslcertmode=require " + given, fail: true},
		"not a key":       {dsn: "host=db sslmode=require sslcert=" + client.Cert + " sslkey=" + client.Cert, fail: true},
		"escaped keyword": {dsn: `host=db sslmode=require sslcert = '` + strings.ReplaceAll(client.Cert, "/", `\/`) + `' sslkey=` + client.Key, has: true},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			got, err := parseUpstream(tc.dsn)
			if tc.fail != (err != nil) {
				t.Fatal(err)
			}
			if tc.fail {
				return
			}
			has := got.settings.GetClientCertificate != nil
			if has {
				c, err := got.settings.GetClientCertificate(&tls.CertificateRequestInfo{Version: tls.VersionTLS13, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}})
				has = err == nil && len(c.Certificate) == 1
			}
			if has != tc.has {
				t.Fatalf("certificate: %v", has)
			}
			if _, err := pgconn.ParseConfig(tc.dsn); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestKeywordsAreLibpqs(t *testing.T) {
	for in, want := range map[string]string{
		`a=b`: "b", ` a = b c=d`: "b", `a='b c'`: "b c", `a='it\'s'`: "it's", `a=b\ c`: "b c", `a=`: "", `a= c=d`: "c=d", `a=b\`: "b",
		`a='\\'`: `\`, `c=d a=x`: "x", `a=1 a=2`: "2",
	} {
		if got, err := parseKeywords(in); err != nil || got["a"] != want {
			t.Errorf("%q: %q %v", in, got["a"], err)
		}
		if theirs, err := pgconn.ParseConfig("host=h sslmode=disable " + in); err != nil || theirs.RuntimeParams["a"] != want {
			t.Errorf("pgx, %q: %q %v", in, theirs.RuntimeParams["a"], err)
		}
	}
	for _, in := range []string{"a", "a b=c", "=b", "a='b"} {
		if got, err := parseKeywords(in); err == nil {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// With auth scram each leg has its own channel binding, so that TLS on both needs no word about it.
func TestAuth(t *testing.T) {
	p := tlstest.NewAuthority(t).Server(t, "proxy", "localhost")
	legs := strings.Replace(minimal, "sslmode=disable", "sslmode=require", 1) + "tls: {mode: allow, cert: " + p.Cert + ", key: " + p.Key
	for name, tc := range map[string]struct{ text, says string }{
		"scram":                  {minimal + "auth: scram\n", ""},
		"scram, TLS on both":     {legs + "}\nauth: scram\n", ""},
		"relay, TLS on both":     {legs + "}\nauth: relay\n", "or set auth to scram"},
		"a binding of the relay": {legs + ", channel_binding: disabled}\nauth: scram\n", "tls.channel_binding is for auth relay"},
		"unknown":                {minimal + "auth: md5\n", `unknown way "md5": want relay or scram`},
		"query without scram":    {minimal + "auth_query: SELECT $1\n", "auth_query without auth, which is relay"},
		"file without scram":     {minimal + "auth_file: /x\n", "auth_file without auth, which is relay"},
		"query without a user":   {minimal + "auth: scram\nauth_query: SELECT 1\n", "must have the parameter $1"},
		"cache for ever":         {minimal + "auth: scram\nauth_cache: 1h\n", "out of range"},
	} {
		_, _, err := load(t, tc.text, nil)
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
