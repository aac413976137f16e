package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
	hunting := flag.Bool("hunt", false, "let the harness of test/torture find those that break the guarantee, and print how long that took")
	budget := flag.Duration("budget", 5*time.Minute, "with -hunt: time for each")
	flag.Parse()
	root, err := moduleRoot()
	if err != nil {
		fail(err)
	}
	which, err := regexp.Compile(*pattern)
	if err != nil {
		fail(err)
	}
	if *hunting {
		if err := hunt(root, which, *budget, *verbose); err != nil {
			fail(err)
		}
		return
	}
	var survived, killed int
	green := map[string]bool{}
	for _, m := range mutants {
		if !which.MatchString(m.name) {
			continue
		}
		began := time.Now()
		if suite := m.pkg + " " + m.tests; !green[suite] {
			// A test that is red anyway would kill every mutant.
			if red, output, err := m.test(root, os.Environ()); err != nil || len(red) > 0 {
				fail(fmt.Errorf("%s: these tests fail without any mutant: %v %w\n%s", m.name, red, err, output))
			}
			green[suite] = true
		}
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
		more := ""
		if len(red) > 3 {
			more = fmt.Sprintf(" and %d more", len(red)-3)
			red = red[:3]
		}
		fmt.Printf("killed    %s (%v)\n          red: %s%s\n", m.name, took, strings.Join(red, "\n               "), more)
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
	err = m.broken(root, func(env []string) error {
		red, output, err = m.test(root, env)
		return err
	})
	return red, output, err
}

// broken calls f with an environment in which go builds the broken product.
func (m mutant) broken(root string, f func(env []string) error) error {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, e := range m.edits() {
		texts, err := e.apply(root, overlay.Replace)
		if err != nil {
			return err
		}
		for path, text := range texts {
			file := filepath.Join(dir, fmt.Sprintf("%d-%s", len(overlay.Replace), filepath.Base(path)))
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				return err
			}
			overlay.Replace[path] = file
		}
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		return err
	}
	// By GOFLAGS, so that it holds for the builds that the tests start as well.
	env := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+file), "FENCEPROXY_TEST_BINARY=")
	build := exec.Command("go", "build", "./...")
	build.Dir, build.Env = root, env
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the mutant does not compile: %w\n%s", err, out)
	}
	return f(env)
}

// test runs the mutant's tests and returns those that failed, the innermost ones.
func (m mutant) test(root string, env []string) (red []string, output string, err error) {
	cmd := exec.Command("go", "test", "-count=1", "-timeout=300s", "-run", m.tests, "./"+m.pkg)
	cmd.Dir, cmd.Env = root, env
	out, err := cmd.CombinedOutput()
	if err == nil {
		if strings.Contains(string(out), "no tests to run") {
			return nil, "", fmt.Errorf("%s has no test %s", m.pkg, m.tests)
		}
		return nil, string(out), nil
	}
	for _, found := range failedTest.FindAllStringSubmatch(string(out), -1) {
		name := found[1] // a test comes before those inside of it
		red = slices.DeleteFunc(red, func(outer string) bool { return strings.HasPrefix(name, outer+"/") })
		red = append(red, name)
	}
	if len(red) == 0 {
		return nil, "", fmt.Errorf("the tests did not run: %w\n%s", err, out)
	}
	return red, string(out), nil
}

var failedTest = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// apply replaces e.old by e.new in the files that e.file names, or in what is there in place of them already, and
// returns the new texts by path.
func (e edit) apply(root string, inPlace map[string]string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(root, e.file))
	if err != nil {
		return nil, err
	}
	broken := map[string]string{}
	for _, path := range paths {
		source := path
		if other, ok := inPlace[path]; ok {
			source = other
		}
		raw, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		switch n := strings.Count(string(raw), e.old); {
		case n == 1:
			broken[path] = strings.Replace(string(raw), e.old, e.new, 1)
		case n > 1:
			return nil, fmt.Errorf("%s holds %q %d times, not once", path, e.old, n)
		}
	}
	if len(broken) == 0 {
		return nil, fmt.Errorf("%s does not hold %q", e.file, e.old)
	}
	return broken, nil
}
