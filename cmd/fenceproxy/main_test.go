package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func TestMain(m *testing.M) {
	// A DSN from the developer's shell must not decide what is tested.
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "FENCEPROXY_") && !strings.HasPrefix(name, "FENCEPROXY_TEST") {
			os.Unsetenv(name)
		}
	}
	pgtest.Main(m)
}

// outcome is what a command line did.
type outcome struct {
	out, err string
	code     int
}

// fenceproxy runs a command line in this process.
func fenceproxy(t *testing.T, args ...string) outcome {
	t.Helper()
	return fenceproxyWith(t, "", args...)
}

func fenceproxyWith(t *testing.T, in string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(context.Background(), args, streams{strings.NewReader(in), &out, &errs})
	return outcome{masked(out.String()), masked(errs.String()), code}
}

var (
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d)`)
	pids     = regexp.MustCompile(`pid \d+`)
	versions = regexp.MustCompile(`schema fence(,| has) version \d+`)
	waits    = regexp.MustCompile(`waiting [0-9.]+m?s`)
	seconds  = regexp.MustCompile(`"waited_seconds": [0-9.e-]+`)
	database = regexp.MustCompile(`test_\d+_\d+`)
	ofTests  = regexp.MustCompile(`(?m)^warning: environment variable FENCEPROXY_TEST_\w+ is not a setting of fenceproxy\n`)
)

// masked replaces what differs from run to run.
func masked(s string) string {
	s = ofTests.ReplaceAllString(s, "") // which say where the servers are that we run on
	s = times.ReplaceAllString(s, "TIME")
	s = pids.ReplaceAllString(s, "pid N")
	s = waits.ReplaceAllString(s, "waiting N")
	s = seconds.ReplaceAllString(s, `"waited_seconds": N`)
	s = versions.ReplaceAllString(s, "schema fence$1 version N")
	return database.ReplaceAllString(s, "DB")
}

func (o outcome) want(t *testing.T, code int, out, err string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d", o.code, code)
	}
	if want := strings.TrimPrefix(out, "\n"); o.out != want {
		t.Errorf("standard output:\n%swant:\n%s", o.out, want)
	}
	if want := strings.TrimPrefix(err, "\n"); o.err != want {
		t.Errorf("standard error:\n%swant:\n%s", o.err, want)
	}
}

// write makes a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
