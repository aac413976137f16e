package pgtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Installation is a set of PostgreSQL server programs.
type Installation struct {
	BinDir string
	Major  int
	Full   string // what `postgres --version` prints; part of the template's key
}

// EnvInstallations names more installations than Debian's: directories, separated as in PATH, that hold bin/postgres or
// postgres itself.
const EnvInstallations = "FENCEPROXY_TEST_PG"

// EnvMajor leaves only the installations of one major version.
const EnvMajor = "FENCEPROXY_TEST_PG_MAJOR"

var errMissing = errors.New("pgtest: no PostgreSQL server found; run: apt-get install -y postgresql\n" +
	"(or name a directory that holds bin/postgres in " + EnvInstallations + ")")

var versionNumber = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// Installations lists the servers of this machine, newest first.
func Installations() ([]Installation, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for _, dir := range filepath.SplitList(os.Getenv(EnvInstallations)) {
		if _, err := os.Stat(filepath.Join(dir, "bin", "postgres")); err == nil {
			dir = filepath.Join(dir, "bin")
		}
		dirs = append(dirs, dir)
	}
	only, err := majorWanted()
	if err != nil {
		return nil, err
	}
	var found []Installation
	for _, dir := range dirs {
		out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
		if err != nil {
			continue // a directory that only holds the client programs
		}
		m := versionNumber.FindSubmatch(out)
		if m == nil {
			continue
		}
		major, _ := strconv.Atoi(string(m[1]))
		if only != 0 && only != major {
			continue
		}
		found = append(found, Installation{BinDir: dir, Major: major, Full: string(out)})
	}
	if len(found) == 0 && only != 0 {
		return nil, fmt.Errorf("pgtest: no PostgreSQL %d found, and %s asks for that version", only, EnvMajor)
	}
	if len(found) == 0 {
		return nil, errMissing
	}
	slices.SortStableFunc(found, func(a, b Installation) int { return cmp.Compare(b.Major, a.Major) })
	return found, nil
}

func majorWanted() (int, error) {
	text := os.Getenv(EnvMajor)
	if text == "" {
		return 0, nil
	}
	major, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("pgtest: %s=%q is not a major version", EnvMajor, text)
	}
	return major, nil
}

// Program is the path of a program beside the server (psql, pgbench), or its bare name where only PATH may have it.
func (i Installation) Program(name string) string {
	path := filepath.Join(i.BinDir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return name
}
