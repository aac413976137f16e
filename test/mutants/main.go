package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is one way to break a guarantee and the tests that hold it.
type mutant struct {
	name  string // the safeguard that is taken away
	file  string // from the root of the module
	old   string // stands exactly once in the file
	new   string
	and   []edit // more edits that belong to it
	pkg   string // package of the tests
	tests string // regular expression for go test -run
}

type edit struct{ file, old, new string }

func (m mutant) edits() []edit { return append([]edit{{m.file, m.old, m.new}}, m.and...) }

func main() {
	pattern := flag.String("run", "", "regular expression: only mutants whose name matches")
	verbose := flag.Bool("v", false, "print what the tests print")
	flag.Parse()
	root, err := moduleRoot()
	if err != nil {
		fail(err)
	}
	which, err := regexp.Compile(*pattern)
	if err != nil {
		fail(err)
	}
	var survived, killed int
	for _, m := range mutants {
		if !which.MatchString(m.name) {
			continue
		}
		began := time.Now()
		red, output, err := m.try(root)
		if err != nil {
			fail(fmt.Errorf("%s: %w", m.name, err))
		}
		if *verbose {
			fmt.Println(output)
		}
		took := time.Since(began).Round(time.Second)
		if len(red) == 0 {
			survived++
			fmt.Printf("SURVIVED  %s: %s stays green (%v)\n", m.name, m.tests, took)
			continue
		}
		killed++
		fmt.Printf("killed    %s\n          red: %s (%v)\n", m.name, strings.Join(red, ", "), took)
	}
	fmt.Printf("%d passed, %d failed\n", killed, survived)
	if survived > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(2)
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

// try runs the tests on the broken product and returns those that failed.
func (m mutant) try(root string) (red []string, output string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, e := range m.edits() {
		path := filepath.Join(root, e.file)
		source := path
		if broken, ok := overlay.Replace[path]; ok {
			source = broken // a second edit of the same file
		}
		text, err := apply(source, e)
		if err != nil {
			return nil, "", err
		}
		broken := filepath.Join(dir, fmt.Sprintf("%d-%s", len(overlay.Replace), filepath.Base(e.file)))
		if err := os.WriteFile(broken, []byte(text), 0o644); err != nil {
			return nil, "", err
		}
		overlay.Replace[path] = broken
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		return nil, "", err
	}
	// By GOFLAGS, so that it holds for the builds that the tests start as well.
	env := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+file), "FENCEPROXY_TEST_BINARY=")
	build := exec.Command("go", "build", "./...")
	build.Dir, build.Env = root, env
	if out, err := build.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("the mutant does not compile: %w\n%s", err, out)
	}
	test := exec.Command("go", "test", "-count=1", "-timeout=300s", "-run", m.tests, "./"+m.pkg)
	test.Dir, test.Env = root, env
	out, err := test.CombinedOutput()
	if err == nil {
		if strings.Contains(string(out), "no tests to run") {
			return nil, "", fmt.Errorf("%s has no test %s", m.pkg, m.tests)
		}
		return nil, string(out), nil
	}
	for _, found := range failedTest.FindAllStringSubmatch(string(out), -1) {
		red = append(red, found[1])
	}
	if len(red) == 0 {
		return nil, "", fmt.Errorf("the tests did not run: %w\n%s", err, out)
	}
	return red, string(out), nil
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// apply replaces e.old, which must stand exactly once in the file at path, by e.new.
func apply(path string, e edit) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(raw), e.old); n != 1 {
		return "", fmt.Errorf("%s holds %q %d times, not once", e.file, e.old, n)
	}
	return strings.Replace(string(raw), e.old, e.new, 1), nil
}
