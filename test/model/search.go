package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed fence.pml
var model string

// result of a search: what spin's verifier has printed.
type result struct {
	states, depth int
	violation     string // "" for none
	trail         string // the last steps to it
	took          time.Duration
}

const limit = 30 * time.Minute

// search looks at every state of the model within the bounds, or until something is wrong.
func search(b bounds, define string, want string) (r result, err error) {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "fence.pml"), []byte(model), 0o644); err != nil {
		return r, err
	}
	defines := []string{fmt.Sprintf("-DSESSIONS=%d", b.sessions), fmt.Sprintf("-DTRANSACTIONS=%d", b.transactions), fmt.Sprintf("-DCRASHES=%d", b.crashes)}
	if define != "" {
		defines = append(defines, "-D"+define)
	}
	began := time.Now()
	if _, err := run(dir, "spin", append(defines, "-a", "fence.pml")...); err != nil {
		return r, err
	}
	if _, err := run(dir, "gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=8000", "-o", "pan", "pan.c"); err != nil {
		return r, err
	}
	args := []string{"-m1000000", "-w22"}
	if want != "" && want != stuck {
		args = append(args, "-E") // a broken variant may get stuck as well
	}
	out, err := run(dir, "./pan", args...)
	if err != nil {
		return r, err
	}
	r.took = time.Since(began)
	if r.states, err = number(out, `(\d+) states, stored`); err != nil {
		return r, err
	}
	if r.depth, err = number(out, `depth reached (\d+)`); err != nil {
		return r, err
	}
	found, err := number(out, `errors: (\d+)`)
	if err != nil {
		return r, err
	}
	if found == 0 {
		if strings.Contains(out, "Search not completed") || strings.Contains(out, "max search depth too small") {
			return r, fmt.Errorf("the search was not exhaustive:\n%s", out)
		}
		return r, nil
	}
	m := violation.FindStringSubmatch(out)
	if m == nil {
		return r, fmt.Errorf("spin has found something that was not understood:\n%s", out)
	}
	r.violation = m[1]
	r.trail, err = run(dir, "spin", append(defines, "-t", "-p", "-g", "-l", "fence.pml")...)
	return r, err
}

var violation = regexp.MustCompile(`(?m)^pan:\d+: (.*) \(at depth \d+\)$`)

func number(out, pattern string) (int, error) {
	m := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no %q in:\n%s", pattern, out)
	}
	return strconv.Atoi(m[1])
}

func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(limit, func() {
		if cmd.Process != nil {
			cmd.Process.Kill()
		}
	})
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not installed: apt-get install %s", name, name)
	}
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return string(out), nil
}
