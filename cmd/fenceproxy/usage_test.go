package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestUsageErrors(t *testing.T) {
	for _, tc := range []struct{ name, args, want string }{
		{"unknown command", "server", "fenceproxy: unknown command \"server\"\nsee fenceproxy --help\n"},
		{"unknown flag", "serve --colour", "fenceproxy: unknown flag: --colour\nsee fenceproxy serve --help\n"},
		{"flag without value", "serve --mode", "fenceproxy: flag needs an argument: --mode\nsee fenceproxy serve --help\n"},
		{"bad values, all of them", "serve --mode on --takeover-grace soon", `fenceproxy: --mode: unknown mode "on": want enforce, observe or off
--takeover-grace: "soon" is not a duration: want a number with a unit, like 500ms, 10s or 2m
`},
		{"no upstream", "serve --mode off", "fenceproxy: no upstream: set upstream, FENCEPROXY_UPSTREAM or --upstream\n"},
		{"no fences", "serve --upstream host=db", "fenceproxy: no fences: mode enforce would protect nothing; set fences, FENCEPROXY_FENCES or --fence, or mode off\n"},
		{"DSN that cannot be honoured", "serve --upstream postgres://app:hunter2@db/x?sslcrl=list --fence a=b", "fenceproxy: --upstream: sslcrl in a DSN is not supported\n"},
		{"configuration that is not there", "serve --config /nowhere.yaml", "fenceproxy: cannot read the configuration: open /nowhere.yaml: no such file or directory\n"},
		{"argument too many", "version now", "fenceproxy: unexpected argument \"now\"\nsee fenceproxy version --help\n"},
		{"argument missing", "fence raise billing", "fenceproxy: TOKEN is missing\nsee fenceproxy fence raise --help\n"},
		{"unknown subcommand", "fence rise", "fenceproxy: unknown command \"rise\"\nsee fenceproxy fence --help\n"},
		{"malformed token", "fence raise billing -5", "fenceproxy: unknown shorthand flag: '5' in -5\nsee fenceproxy fence raise --help\n"},
		{"malformed token, really", "fence raise billing 0x5", "fenceproxy: \"0x5\" is not a token: want counter or epoch.counter\nsee fenceproxy fence raise --help\n"},
		{"malformed name", "fence show a=b", "fenceproxy: the name of a fence has a character that is not allowed: printable ASCII without blanks and , = ' \" \\ ; $ *\nsee fenceproxy fence show --help\n"},
		{"no reason", "fence bump-epoch billing", "fenceproxy: --reason is missing: the history must say why\nsee fenceproxy fence bump-epoch --help\n"},
		{"yes to nothing", "init --yes", "fenceproxy: --yes goes with --uninstall\nsee fenceproxy init --help\n"},
		{"bad DSN", "fence list --dsn postgres://app:hunter2@db:port/x", "fenceproxy: --dsn: not a DSN: write postgres://user@host:port/database or host=... port=... user=... dbname=...\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fenceproxy(t, strings.Fields(tc.args)...).want(t, exitUsage, "", tc.want)
		})
	}
}

// Every command says what it is for, has an example that begins with its own name, and takes --help.
func TestHelp(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			return
		}
		if cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, path) {
			t.Errorf("%s: help is not complete", path)
		}
		for line := range strings.Lines(cmd.Long) {
			if len(line) > 100 {
				t.Errorf("%s: line longer than a terminal: %q", path, line)
			}
		}
		o := fenceproxy(t, append(strings.Fields(path)[1:], "--help")...)
		if o.code != exitOK || !strings.Contains(o.out, "Examples:") {
			t.Errorf("%s --help: exit code %d\n%s%s", path, o.code, o.out, o.err)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(stdio()))
}

func TestVersion(t *testing.T) {
	o := fenceproxy(t, "version")
	if o.code != exitOK || !strings.HasPrefix(o.out, "fenceproxy dev (commit ") {
		t.Errorf("%+v", o)
	}
	o = fenceproxy(t, "version", "--json")
	if o.code != exitOK || !strings.Contains(o.out, `"schema": `) {
		t.Errorf("%+v", o)
	}
}

// Garbage in the environment names the variable, all of it at once.
func TestEnvironmentErrorsNameTheVariable(t *testing.T) {
	for name, value := range map[string]string{
		"FENCEPROXY_LISTEN": "nowhere", "FENCEPROXY_LISTEN_POOLED": "x:y", "FENCEPROXY_UPSTREAM": "postgres://app:hunter2@db:port/x",
		"FENCEPROXY_CONTROL": "host=", "FENCEPROXY_ADMIN": "9432", "FENCEPROXY_MODE": "on", "FENCEPROXY_FENCES": "a;b=",
		"FENCEPROXY_OPAQUE": "maybe", "FENCEPROXY_OPAQUE_CALL": "x", "FENCEPROXY_TOKENLESS": "write", "FENCEPROXY_TAKEOVER_GRACE": "10",
		"FENCEPROXY_ANNOUNCE_MAX_JUMP": "-1", "FENCEPROXY_ALLOW_ROLE_TOKEN": "yes", "FENCEPROXY_HARMLESS_FUNCTIONS": "f()",
		"FENCEPROXY_LIMITS_MAX_CONNECTIONS": "many", "FENCEPROXY_LIMITS_LOGIN_TIMEOUT": "0s", "FENCEPROXY_LIMITS_MAX_STATEMENT_BYTES": "1TB",
		"FENCEPROXY_REPLICATION": "physical", "FENCEPROXY_LOG_LEVEL": "loud", "FENCEPROXY_LOG_FORMAT": "xml", "FENCEPROXY_SHUTDOWN_DRAIN_TIMEOUT": "soon",
		"FENCEPROXY_BARE_TOKEN": "other",
	} {
		t.Setenv(name, value)
	}
	o := fenceproxy(t, "serve")
	if o.code != exitUsage || strings.Contains(o.err, "hunter2") {
		t.Errorf("%+v", o)
	}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "FENCEPROXY_") || name == "FENCEPROXY_CONTROL" || name == "FENCEPROXY_BARE_TOKEN" || strings.HasPrefix(name, "FENCEPROXY_TEST") {
			continue
		}
		if !strings.Contains(o.err, name+": ") {
			t.Errorf("%s is not named in\n%s", name, o.err)
		}
	}
}

func TestPrintConfig(t *testing.T) {
	file := write(t, "f.yaml", "upstream: postgres://app:hunter2@db/x\nmode: observe\n")
	t.Setenv("FENCEPROXY_LOG_LEVEL", "debug")
	o := fenceproxy(t, "serve", "--config", file, "--print-config", "--fence", "a=b", "--admin", ":1")
	for _, want := range []string{"postgres://app:*****@db/x", "mode: observe", "level: debug", "name: a", "admin: :1"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("%q is not in\n%s%s", want, o.out, o.err)
		}
	}
	if o.err != "" {
		t.Errorf("warnings without a reason: %s", o.err)
	}
	// A variable with a typing mistake is looked for here, and in explain.
	t.Setenv("FENCEPROXY_MOED", "off")
	for _, args := range [][]string{{"serve", "--config", file, "--print-config"}, {"explain", "--config", file, "SELECT 1"}} {
		if o := fenceproxy(t, args...); o.code != exitOK || o.err != "warning: environment variable FENCEPROXY_MOED is not a setting of fenceproxy\n" {
			t.Errorf("%v: %+v", args, o)
		}
	}
}
