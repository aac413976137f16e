package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load reads text as fenceproxy.yaml.
func load(t *testing.T, text string, environ []string, args ...string) (*Config, []string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fenceproxy.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	flags := AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(Source{File: "fenceproxy.yaml", Environment: environ, Flags: flags})
}

const minimal = "upstream: host=db sslmode=disable\nfences:\n  - name: billing\n    tables: [invoices]\n"

func TestErrorText(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", minimal + "mod: off\n", `
fenceproxy.yaml:5:1: unknown key "mod": did you mean mode?
    5 | mod: off
      | ^`},
		{"unknown key without a near one", minimal + "log:\n  colour: true\n", `
fenceproxy.yaml:6:3: unknown key "colour": want one of level, format
    6 |   colour: true
      |   ^`},
		{"unknown word", minimal + "mode: enforced\n", `
fenceproxy.yaml:5:7: unknown mode "enforced": want enforce, observe or off
    5 | mode: enforced
      |       ^`},
		{"wrong type", minimal + "limits:\n  max_connections: many\n", `
fenceproxy.yaml:6:20: want a whole number, found text
    6 |   max_connections: many
      |                    ^`},
		{"integer out of range", minimal + "limits:\n  max_connections: 0\n", `
fenceproxy.yaml:6:20: 0 is out of range: want 1 to 1000000
    6 |   max_connections: 0
      |                    ^`},
		{"integer beyond int64", minimal + "announce:\n  max_jump: 99999999999999999999999\n", `
fenceproxy.yaml:6:13: want a whole number, found text
    6 |   max_jump: 99999999999999999999999
      |             ^`},
		{"text for a boolean", minimal + "allow_role_token: yes\n", `
fenceproxy.yaml:5:19: want true or false, found text
    5 | allow_role_token: yes
      |                   ^`},
		{"duration without a unit", minimal + "takeover: {grace: 10}\n", `
fenceproxy.yaml:5:19: want a duration with a unit, like 10s, found a whole number
    5 | takeover: {grace: 10}
      |                   ^`},
		{"bad duration", minimal + "takeover:\n  grace: 10 seconds\n", `
fenceproxy.yaml:6:10: "10 seconds" is not a duration: want a number with a unit, like 500ms, 10s or 2m
    6 |   grace: 10 seconds
      |          ^`},
		{"negative duration", minimal + "takeover:\n  grace: -1s\n", `
fenceproxy.yaml:6:10: -1s is out of range: want 0s to 24h
    6 |   grace: -1s
      |          ^`},
		{"bad size", minimal + "limits:\n  cache_bytes: 16 megs\n", `
fenceproxy.yaml:6:16: "16 megs" is not a size: want a whole number of bytes or a unit, like 65536, 64KiB or 16MiB
    6 |   cache_bytes: 16 megs
      |                ^`},
		{"scalar for a list", minimal + "listen: :6432\n", `
fenceproxy.yaml:5:9: want a list, one ` + "`- element`" + ` a line, found text
    5 | listen: :6432
      |         ^`},
		{"bad address", minimal + "listen:\n  - localhost\n", `
fenceproxy.yaml:6:5: "localhost" is not an address: want host:port, :port or the absolute path of a Unix socket
    6 |   - localhost
      |     ^`},
		{"bad port", minimal + "listen:\n  - address: localhost:99999\n    pooled: true\n", `
fenceproxy.yaml:6:14: "99999" is not a port: want 0 to 65535
    6 |   - address: localhost:99999
      |              ^`},
		{"address twice", minimal + "listen:\n  - :6432\n  - {address: ':6432', pooled: true}\n", `
fenceproxy.yaml:7:15: ":6432" is listed twice
    7 |   - {address: ':6432', pooled: true}
      |               ^`},
		{"duplicate fence", minimal + "  - name: billing\n    tables: [other]\n", `
fenceproxy.yaml:5:11: fence billing is defined twice (first in line 3)
    5 |   - name: billing
      |           ^`},
		{"fence without tables", minimal + "  - name: jobs\n    tables: []\n", `
fenceproxy.yaml:5:11: fence jobs has no tables
    5 |   - name: jobs
      |           ^`},
		{"bad table pattern", minimal + "  - name: jobs\n    tables:\n      - jobs\n      - inv*\n", `
fenceproxy.yaml:8:9: "inv*" is not a table: want name, schema.name or schema.*, quoted as in SQL
    8 |       - inv*
      |         ^`},
		{"every table", minimal + "  - name: jobs\n    tables: ['*']\n", `
fenceproxy.yaml:6:14: "*" would fence every table: name the schema, as in public.*
    6 |     tables: ['*']
      |              ^`},
		{"database in a table", minimal + "  - name: jobs\n    tables: [db.public.jobs]\n", `
fenceproxy.yaml:6:14: "db.public.jobs" has 3 parts: a table is name or schema.name, the database is the session's
    6 |     tables: [db.public.jobs]
      |              ^`},
		{"bare token for no fence", minimal + "bare_token: jobs\n", `
fenceproxy.yaml:5:13: bare_token: no fence is called "jobs"
    5 | bare_token: jobs
      |             ^`},
		{"admin on a client's address", minimal + "listen: [':1']\nadmin: :1\n", `
fenceproxy.yaml:6:8: admin: ":1" is an address for clients already
    6 | admin: :1
      |        ^`},
		{"all errors of a pass", "mode: on\nupstream: 5\nfences: {}\n", `
fenceproxy.yaml:1:7: unknown mode "on": want enforce, observe or off
    1 | mode: on
      |       ^
fenceproxy.yaml:2:11: want text, found a whole number
    2 | upstream: 5
      |           ^
fenceproxy.yaml:3:9: want a list, one ` + "`- element`" + ` a line, found a mapping
    3 | fences: {}
      |         ^`},
		{"setting of libpq that is not honoured", "upstream: postgres://app:hunter2@db/x?sslmode=require&sslcrl=crl.pem\nmode: off\n", `
fenceproxy.yaml:1:11: sslcrl in a DSN is not supported
    1 | upstream: postgres://*****
      |           ^`},
		{"direct TLS, perhaps", "upstream: host=db sslmode=allow sslnegotiation=direct\nmode: off\n", `
fenceproxy.yaml:1:11: sslnegotiation=direct needs sslmode require, verify-ca or verify-full
    1 | upstream: host=db sslmode=allow sslnegotiation=direct
      |           ^`},
		{"function by name", minimal + "function_calls: [large_objects, 17, lo_open]\n", `
fenceproxy.yaml:5:37: "lo_open" is neither large_objects nor the oid of a function
    5 | function_calls: [large_objects, 17, lo_open]
      |                                     ^`},
		{"hosts at random", "upstream: host=a,b sslmode=disable load_balance_hosts=random\nmode: off\n", `
fenceproxy.yaml:1:11: load_balance_hosts in a DSN is not supported
    1 | upstream: host=a,b sslmode=disable load_balance_hosts=random
      |           ^`},
		{"nothing to protect", "upstream: host=db\n", `
fenceproxy.yaml: no fences: mode enforce would protect nothing; set fences, FENCEPROXY_FENCES or --fence, or mode off`},
		{"no upstream", "mode: off\n", `
fenceproxy.yaml: no upstream: set upstream, FENCEPROXY_UPSTREAM or --upstream`},
		{"not a mapping", "- a\n- b\n", "\nfenceproxy.yaml:1:1: want settings, one `key: value` a line, found a list\n    1 | - a\n      | ^"},
		{"two documents", minimal + "---\nmode: off\n", `
fenceproxy.yaml:6:1: a configuration is one YAML document
    6 | mode: off
      | ^`},
		{"key twice", minimal + "mode: off\nmode: off\n", `
fenceproxy.yaml:6:1: mapping key "mode" already defined at [5:1]
    6 | mode: off
      | ^`},
		{"caret under a wide line", minimal + "bare_token: \"größer\"\n", `
fenceproxy.yaml:5:13: bare_token: no fence is called "größer"
    5 | bare_token: "größer"
      |             ^`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := load(t, tc.text, nil)
			if err == nil {
				t.Fatal("accepted")
			}
			if got := err.Error(); got != strings.TrimPrefix(tc.want, "\n") {
				t.Errorf("got:\n%s\nwant:%s", got, tc.want)
			}
		})
	}
}

// A password must not reach a terminal or a log, wherever in the file a mistake sits.
func TestPasswordNotShown(t *testing.T) {
	for _, text := range []string{
		"upstream: postgres://app:hunter2@db:port/x\n",
		"upstream: postgres://app:hunter2@db/x?sslmode=verify-full\n",
		"upstream: host=db password=hunter2 sslmode=nonsense\n",
		"upstream: host=db password = 'hunter2\n",
		"upstream: [postgres://app:hunter2@db/x]\n",
		"upstrean: postgres://app:hunter2@db/x\n",
		"admin: postgres://app:hunter2@db/x\n",
		"mode: postgres://app:hunter2@db/x\n",
		"upstream: postgres://app:hunter2@db/x: y\n",
		"upstream: 'postgres://app:hunter2@db/x\n",
		"\tupstream: postgres://app:hunter2@db/x\n",
		"bare_token: postgres://app:hunter2@db/x\n",
		"control: postgres://app:hunter2@%zz/x\n",
	} {
		_, _, err := load(t, text, nil)
		if err == nil {
			t.Errorf("%q accepted", text)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q shown:\n%s", text, err)
		}
	}
}

func TestPrecedence(t *testing.T) {
	text := minimal + "mode: observe\ntakeover: {grace: 1s}\nlog: {level: warn}\nlisten: [':1', ':2']\n"
	environ := []string{"FENCEPROXY_TAKEOVER_GRACE=2s", "FENCEPROXY_LOG_LEVEL=error", "FENCEPROXY_LISTEN=:3, :4", "FENCEPROXY_ADMIN="}
	c, warnings, err := load(t, text, environ, "--log-level=debug", "--fence=jobs=jobs,\"a,b\"", "--fence", "x=public.*", "--listen-pooled=:5", "--listen=:6")
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	var got strings.Builder
	if err := c.Write(&got); err != nil {
		t.Fatal(err)
	}
	want := `listen:
  - address: :5
    pooled: true
  - :6
tls:
  mode: disable
  client_cert: none
auth: relay
auth_cache: 10s
listen_reuseport: false
upstream: host=db sslmode=disable
mode: observe
fences:
  - name: jobs
    tables:
      - jobs
      - "\"a,b\""
  - name: x
    tables:
      - public.*
opaque: allow
opaque_call: guard
tokenless: readwrite
catalog: "on"
catalog_interval: 10s
catalog_connections: 100
function_calls:
  - large_objects
takeover:
  grace: 2s
announce:
  max_jump: 1000000000
allow_role_token: false
limits:
  max_connections: 1000
  login_timeout: 1m
  idle_timeout: 0s
  idle_in_transaction_timeout: 0s
  max_statement_bytes: 64MiB
  max_parse_bytes: 256KiB
  cache_bytes: 16MiB
  processors: 0
replication: refuse
log:
  level: debug
  format: json
decision_log: "off"
decision_log_rate: 1000
shutdown:
  delay: 0s
  drain_timeout: 30s
`
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
	again, _, err := load(t, got.String(), nil)
	if err != nil {
		t.Fatalf("what Write prints is not accepted: %v", err)
	}
	var second strings.Builder
	again.Write(&second)
	if second.String() != got.String() {
		t.Errorf("what Write prints reads as\n%s", second.String())
	}
}

func TestEnvironment(t *testing.T) {
	for _, tc := range []struct {
		name, environ, wantErr, wantWarning string
	}{
		{"setting", "FENCEPROXY_MODE=off", "", ""},
		{"bad value", "FENCEPROXY_MODE=maybe", `FENCEPROXY_MODE: unknown mode "maybe": want enforce, observe or off`, ""},
		{"fences", "FENCEPROXY_FENCES=a=t1,t2; b=s.*", "", ""},
		{"bad fence", "FENCEPROXY_FENCES=a", `FENCEPROXY_FENCES: "a" is not a fence: want NAME=TABLE[,TABLE...]`, ""},
		{"fence without tables", "FENCEPROXY_FENCES=a=", `FENCEPROXY_FENCES: fence a has no tables`, ""},
		{"typing mistake", "FENCEPROXY_MOED=off", "", "environment variable FENCEPROXY_MOED is not a setting of fenceproxy"},
		{"Kubernetes service link", "FENCEPROXY_PORT=tcp://10.0.0.1:6432", "", ""},
		{"Kubernetes service link of a port", "FENCEPROXY_PORT_6432_TCP_ADDR=10.0.0.1", "", ""},
		{"Kubernetes service link of another service", "FENCEPROXY_ADMIN_SERVICE_HOST=10.0.0.1", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, warnings, err := load(t, minimal, []string{tc.environ, "HOME=/"})
			if got := strings.Join(warnings, ";"); got != tc.wantWarning {
				t.Errorf("warnings %q, want %q", got, tc.wantWarning)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.wantErr {
				t.Errorf("error %q, want %q", got, tc.wantErr)
			}
		})
	}
}

func TestFlagErrors(t *testing.T) {
	_, _, err := load(t, minimal, nil, "--takeover-grace=soon", "--listen=here", "--fence=a b=t")
	want := `--listen: "here" is not an address: want host:port, :port or the absolute path of a Unix socket
--fence: "a b" is not a fence name: `
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "\n--takeover-grace: \"soon\" is not a duration: want a number with a unit, like 500ms, 10s or 2m") {
		t.Errorf("got %v", err)
	}
}

func TestRedactDSN(t *testing.T) {
	for _, tc := range []struct{ dsn, want string }{
		{"postgres://app:hunter2@db:5432/x?sslmode=disable", "postgres://app:*****@db:5432/x?sslmode=disable"},
		{"postgres://app@db/x", "postgres://app@db/x"},
		{"postgres://db/x?password=hunter2", "postgres://db/x?password=*****"},
		{"host=db password=hunter2 user=a", "host=db password=***** user=a"},
		{"host=db password = 'hun\\'ter 2' user=a", "host=db password = ***** user=a"},
		{`host=db password=hun\ ter2`, "host=db password=*****"},
		{"host=db sslmode=disable sslpassword=hunter2", "host=db sslmode=disable sslpassword=*****"},
		{"nonsense hunter2://x", "nonsense hunter2://*****"},
	} {
		if got := RedactDSN(tc.dsn); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.dsn, got, tc.want)
		}
	}
}

func TestUpstreamAddress(t *testing.T) {
	for _, tc := range []struct{ dsn, network, address string }{
		{"postgres://db:6000/x?sslmode=disable", "tcp", "db:6000"},
		{"postgres://[::1]/x?sslmode=prefer", "tcp", "[::1]:5432"},
		{"host=/run/pg port=7", "unix", "/run/pg/.s.PGSQL.7"},
		{"host=db sslmode=allow", "tcp", "db:5432"},
		{"host=db connect_timeout=7", "tcp", "db:5432"},
	} {
		got, err := parseUpstream(tc.dsn)
		if want := strings.Contains(tc.dsn, "connect_timeout"); want != (got.Timeout == 7*time.Second) {
			t.Errorf("%s: timeout %v", tc.dsn, got.Timeout)
		}
		if err != nil || got.Network != tc.network || got.Address != tc.address {
			t.Errorf("%s: %+v %v", tc.dsn, got, err)
		}
	}
}

// The page for users shows a complete file; it must load, and hold every setting.
func TestDocumentedFile(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	if _, _, err := load(t, text, nil); err != nil {
		t.Error(err)
	}
	for _, s := range settings {
		if !strings.Contains(string(page), "| `"+s.key+"` |") {
			t.Errorf("%s is not in the table of settings", s.key)
		}
		if s.flag != "" && !strings.Contains(string(page), "`--"+s.flag) {
			t.Errorf("--%s is not in the table of settings", s.flag)
		}
		name := s.key[strings.LastIndexByte(s.key, '.')+1:]
		if !strings.Contains(text, name+":") {
			t.Errorf("%s is not in the complete file", s.key)
		}
	}
}

// A changed password is a change, though none is ever shown.
func TestChanged(t *testing.T) {
	read := func(text string) *Config {
		t.Helper()
		c, _, err := load(t, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const dsn = "upstream: postgres://app:%s@db/x?sslmode=disable\nfences: [{name: a, tables: [t]}]\n"
	first := read(strings.Replace(dsn, "%s", "one", 1))
	for _, tc := range []struct{ text, want string }{
		{strings.Replace(dsn, "%s", "one", 1), ""},
		{strings.Replace(dsn, "%s", "two", 1), "upstream"},
		{strings.Replace(dsn, "%s", "one", 1) + "log: {level: debug}\nlimits: {max_connections: 5}\n", "limits.max_connections log.level"},
		{strings.Replace(strings.Replace(dsn, "%s", "one", 1), "[t]", "[t, u]", 1), "fences"},
	} {
		if got := strings.Join(Changed(first, read(tc.text)), " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.text, got, tc.want)
		}
	}
}

func TestUpstreamHosts(t *testing.T) {
	for _, tc := range []struct {
		dsn    string
		target Target
		hosts  string
	}{
		{"host=a", TargetAny, ""},
		{"host=a,b port=1,2 sslmode=disable", TargetAny, "a:1 b:2"},
		{"postgres://a:1,b:2/x?target_session_attrs=primary&sslmode=prefer", TargetPrimary, "a:1 b:2"},
		{"host=a target_session_attrs=read-write sslmode=require", TargetReadWrite, "a:5432"},
		{"host=/run,/tmp target_session_attrs=prefer-standby sslmode=disable", TargetPreferStandby, "/run/.s.PGSQL.5432 /tmp/.s.PGSQL.5432"},
	} {
		u, err := parseUpstream(tc.dsn)
		var hosts []string
		for _, h := range u.Hosts {
			hosts = append(hosts, h.Address)
			c := &Config{Upstream: tc.dsn, Control: "postgres://control:secret@elsewhere/db"}
			cfg, err := c.HostConfig(h)
			if err != nil || cfg.User != "control" || cfg.Password != "secret" || cfg.ValidateConnect != nil || len(cfg.Fallbacks) > 1 ||
				cfg.Host != h.host || cfg.Port != h.port {
				t.Errorf("%s: %s: %+v %v", tc.dsn, h.Address, cfg, err)
			}
		}
		if got := strings.Join(hosts, " "); err != nil || got != tc.hosts || u.Target != tc.target {
			t.Errorf("%s: %q %q %v", tc.dsn, u.Target, got, err)
		}
	}
}
