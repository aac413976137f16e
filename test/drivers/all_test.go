package drivers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// driver is one program and what must be known to judge it.
type driver struct {
	name    string
	missing func() string                        // why it cannot run on this machine, "" if it can
	command func(t *testing.T) ([]string, error) // builds it, where there is something to build
	in      string                               // its directory, if that is not the name
	lacks   map[string]string                    // checks that the driver has no way to do, and why
	differs map[string]string                    // checks whose result the driver shows differently
	also    []check                              // checks of this driver alone
}

func (d driver) dir() string {
	if d.in != "" {
		return d.in
	}
	return d.name
}

func nothing() string { return "" }

// connectText is what drivers show of a refused login that do not hand on its SQLSTATE.
const connectText = `stale fencing token for fence "ledger": 15 is lower than the mark 20`

// The interpreters that Debian's modules belong to; PATH may lead to others.
const (
	debianPython = "/usr/bin/python3"
	debianPerl   = "/usr/bin/perl"
	debianRuby   = "/usr/bin/ruby"
	jdbcJar      = "/usr/share/java/postgresql.jar"
)

// probe asks for a package by a command that fails without it.
func probe(pkg string, command ...string) func() string {
	return func() string {
		if exec.Command(command[0], command[1:]...).Run() != nil {
			return pkg + " is not installed"
		}
		return ""
	}
}

func jdbcMissing() string {
	if _, err := os.Stat(jdbcJar); err != nil {
		return "libpostgresql-jdbc-java is not installed"
	}
	if javaVersion() < 11 {
		return "a JDK 11 or newer is not installed"
	}
	return ""
}

// cProgram compiles the C program.
func cProgram(t *testing.T) ([]string, error) {
	include, err := exec.Command("pg_config", "--includedir").Output()
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(t.TempDir(), "libpq")
	cc := exec.Command("cc", "-O1", "-Wall", "-Werror", "-o", binary, "libpq/libpq.c", "-I"+strings.TrimSpace(string(include)), "-lpq")
	if out, err := cc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cc: %w\n%s", err, out)
	}
	return []string{binary}, nil
}

var all = []driver{
	{
		name: "pgx", missing: nothing,
		command: func(t *testing.T) ([]string, error) { return goProgram(t, "pgx") },
	},
	{
		name: "pq", missing: nothing,
		command: func(t *testing.T) ([]string, error) { return goProgram(t, "pq") },
		lacks:   map[string]string{"copy out": "not implemented in lib/pq", "pipeline": "database/sql has none", "stale pipeline": "database/sql has none"},
	},
	{
		name: "psql", missing: nothing,
		command: func(t *testing.T) ([]string, error) { return []string{"psql", "-X", "-q", "-f", "check.sql"}, nil },
		lacks:   map[string]string{"pipeline": "psql 18 is the first that has one", "stale pipeline": "psql 18 is the first that has one"},
		differs: map[string]string{"stale connect": connectText},
	},
	{
		name: "libpq", missing: probe("libpq-dev or gcc", "sh", "-c", "pg_config --includedir && cc --version"),
		command: cProgram,
	},
	{
		name: "psycopg2", missing: probe("python3-psycopg2", debianPython, "-c", "import psycopg2"),
		command: func(t *testing.T) ([]string, error) { return []string{debianPython, "check.py"}, nil },
		lacks:   map[string]string{"pipeline": "psycopg2 has none; psycopg 3 has", "stale pipeline": "psycopg2 has none; psycopg 3 has"},
		differs: map[string]string{"stale connect": connectText},
	},
	{
		name: "jdbc", missing: jdbcMissing,
		command: func(t *testing.T) ([]string, error) { return []string{"java", "-cp", jdbcJar, "Check.java"}, nil },
		also:    []check{{"server-side statement", "1"}},
	},
	{
		name: "dbdpg", missing: probe("libdbd-pg-perl", debianPerl, "-MDBD::Pg", "-e", "1"),
		command: func(t *testing.T) ([]string, error) { return []string{debianPerl, "check.pl"}, nil },
		lacks:   map[string]string{"pipeline": "DBD::Pg has none", "stale pipeline": "DBD::Pg has none"},
		differs: map[string]string{"stale connect": connectText},
	},
	{
		name: "rubypg", missing: probe("ruby-pg", debianRuby, "-rpg", "-e", "1"),
		command: func(t *testing.T) ([]string, error) { return []string{debianRuby, "check.rb"}, nil },
		differs: map[string]string{"stale connect": connectText},
	},
	{
		name: "node-postgres", missing: probe("npm package pg", "node", "-e", "require('./node/node_modules/pg')"), in: "node",
		command: func(t *testing.T) ([]string, error) { return []string{"node", "pg.mjs"}, nil },
	},
	{
		name: "postgres.js", missing: probe("npm package postgres", "node", "-e", "require('./node/node_modules/postgres')"), in: "node",
		command: func(t *testing.T) ([]string, error) { return []string{"node", "postgres.mjs"}, nil },
	},
}
