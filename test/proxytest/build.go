package proxytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// EnvBinary names a fenceproxy binary to test instead of building one.
const EnvBinary = "FENCEPROXY_TEST_BINARY"

var buildDir string

var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(EnvBinary); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "fenceproxy-build")
	if err != nil {
		return "", err
	}
	buildDir = dir
	binary := filepath.Join(dir, "fenceproxy")
	args := []string{"build", "-o", binary}
	if raceDetector {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/fenceproxy/fenceproxy/cmd/fenceproxy")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("proxytest: go build: %w\n%s", err, out)
	}
	return binary, nil
})

// Build returns the path of the binary; with the race detector when the test has it.
func Build() (string, error) { return build() }

// Binary is Build for tests.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Cleanup removes the binary; for pgtest.Main.
func Cleanup() {
	if buildDir != "" {
		os.RemoveAll(buildDir)
	}
}

// Command runs the binary with arguments and returns what it printed; the error holds it too.
func Command(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("fenceproxy %v: %w\n%s", args, err, out)
	}
	return string(out), err
}

// MustCommand is Command, and the test ends when it fails.
func MustCommand(t testing.TB, args ...string) string {
	t.Helper()
	out, err := Command(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Install puts the fence schema into a database.
func Install(t testing.TB, dsn string) {
	t.Helper()
	MustCommand(t, "init", "--dsn", dsn)
}
