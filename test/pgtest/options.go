package pgtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

type options struct {
	installation Installation
	settings     map[string]string
	hba          []string
	files        map[string]string // name in the data directory, and what it is a copy of
	ownIdentity  bool
	backupOf     string // DSN that pg_basebackup copies from; "" for a template
}

// Option changes how a cluster is made.
type Option func(*options)

// WithSetting puts a line into postgresql.conf; the value is quoted.
func WithSetting(name, value string) Option {
	return func(o *options) { o.settings[name] = value }
}

// WithFsync makes commits wait for the disk, as they do in production. Without it nothing is flushed: a killed server
// still recovers, a killed machine does not.
func WithFsync() Option {
	return func(o *options) { o.settings["fsync"], o.settings["full_page_writes"] = "on", "on" }
}

// WithInstallation chooses the server's version.
func WithInstallation(i Installation) Option {
	return func(o *options) { o.installation = i }
}

// WithHBA replaces pg_hba.conf, which trusts everybody otherwise.
func WithHBA(lines ...string) Option {
	return func(o *options) { o.hba = lines }
}

// WithTLS switches TLS on, with copies of files in PEM; ca, for certificates of clients, may be "".
func WithTLS(cert, key, ca string) Option {
	return func(o *options) {
		o.settings["ssl"] = "on"
		o.files = map[string]string{"server.crt": cert, "server.key": key}
		if ca != "" {
			o.files["root.crt"], o.settings["ssl_ca_file"] = ca, "root.crt"
		}
	}
}

// WithOwnIdentity gives the cluster a system identifier of its own. Otherwise clusters of one version are copies of one
// initdb and share theirs.
func WithOwnIdentity() Option {
	return func(o *options) { o.ownIdentity = true }
}

// WithBackupOf makes the cluster a hot standby of the server behind a DSN, which may lead through a proxy. Both need
// the same settings for connections and prepared transactions.
func WithBackupOf(dsn string, primary *Cluster) Option {
	return func(o *options) {
		o.backupOf = dsn
		o.settings["primary_conninfo"] = "user=postgres host=127.0.0.1 port=" + strconv.Itoa(primary.port)
	}
}

func newOptions(opts []Option) (options, error) {
	o := options{settings: map[string]string{
		"fsync":                     "off",
		"full_page_writes":          "off",
		"max_connections":           "150",
		"shared_buffers":            "32MB",
		"max_wal_size":              "256MB",
		"listen_addresses":          "127.0.0.1",
		"log_line_prefix":           "%m %p %u %a ",
		"log_checkpoints":           "off",
		"max_prepared_transactions": "0",
		"timezone":                  "UTC",
		"log_timezone":              "UTC",
	}}
	for _, opt := range opts {
		opt(&o)
	}
	if o.installation.BinDir == "" {
		all, err := Installations()
		if err != nil {
			return o, err
		}
		o.installation = all[0]
	}
	return o, nil
}

func (o options) configuration() string {
	var conf strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.settings)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.ReplaceAll(o.settings[name], "'", "''"))
	}
	return conf.String()
}

// EachVersion runs a test once per installed version.
func EachVersion(t *testing.T, f func(t *testing.T, i Installation)) {
	all, err := Installations()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, i := range all {
		if !seen[i.Major] {
			seen[i.Major] = true
			t.Run(fmt.Sprintf("postgresql-%d", i.Major), func(t *testing.T) { f(t, i) })
		}
	}
}
