// Package deploy tests the files beside it as far as that is possible without a cluster.
package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	proxytest.Cleanup()
	os.Exit(code)
}

type object = map[string]any

// documents reads all YAML documents of a file; a key that stands twice is an error.
func documents(t *testing.T, path string) (all []object) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f, yaml.Strict())
	for {
		var o object
		if err := d.Decode(&o); err != nil {
			if err.Error() != "EOF" {
				t.Fatalf("%s: %v", path, err)
			}
			return all
		}
		all = append(all, o)
	}
}

// at follows a path of keys; elements of lists are taken one by one.
func at(v any, path ...string) (found []any) {
	if list, ok := v.([]any); ok {
		for _, e := range list {
			found = append(found, at(e, path...)...)
		}
		return found
	}
	if len(path) == 0 {
		return []any{v}
	}
	if m, ok := v.(object); ok {
		if next, there := m[path[0]]; there {
			return at(next, path[1:]...)
		}
	}
	return nil
}

// toSeconds reads a whole number of seconds.
func toSeconds(v any) time.Duration {
	n, _ := strconv.Atoi(fmt.Sprint(v))
	return time.Duration(n) * time.Second
}

// checked has fenceproxy itself read a configuration. The environment gives what the files leave to secrets.
func checked(t *testing.T, what, config string, env object) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fenceproxy.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(proxytest.Binary(t), "check", path)
	cmd.Env = os.Environ()
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v.(string))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", what, err, out)
	}
}

func TestKubernetes(t *testing.T) {
	kinds := map[string]struct {
		version string
		fields  []string
	}{
		"ConfigMap":           {"v1", []string{"data"}},
		"Secret":              {"v1", []string{"type", "stringData"}},
		"Service":             {"v1", []string{"spec"}},
		"Deployment":          {"apps/v1", []string{"spec"}},
		"PodDisruptionBudget": {"policy/v1", []string{"spec"}},
	}
	container := []string{"name", "image", "args", "command", "env", "envFrom", "ports", "startupProbe", "livenessProbe",
		"readinessProbe", "resources", "securityContext", "volumeMounts", "restartPolicy"}
	paths, _ := filepath.Glob("kubernetes/*.yaml")
	if len(paths) < 2 {
		t.Fatal("no manifests")
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			all := documents(t, path)
			names := map[string]bool{}
			var env object
			var hold bool
			var drain time.Duration
			for _, o := range all {
				kind, _ := o["kind"].(string)
				k, known := kinds[kind]
				if !known || o["apiVersion"] != k.version {
					t.Errorf("%v %v is no kind known here", o["apiVersion"], kind)
				}
				for f := range o {
					if !slices.Contains(append(k.fields, "apiVersion", "kind", "metadata"), f) {
						t.Errorf("%s has no field %s", kind, f)
					}
				}
				for _, n := range at(o, "metadata", "name") {
					names[kind+"/"+n.(string)] = true
				}
				if kind == "ConfigMap" {
					var config object
					if err := yaml.Unmarshal([]byte(o["data"].(object)["fenceproxy.yaml"].(string)), &config); err != nil {
						t.Fatal(err)
					}
					hold = config["hold"] != nil
					for _, s := range append(at(config, "shutdown", "delay"), at(config, "shutdown", "drain_timeout")...) {
						d, err := time.ParseDuration(s.(string))
						if err != nil {
							t.Fatal(err)
						}
						drain += d
					}
				}
				if kind == "Secret" {
					env = o["stringData"].(object)
				}
			}
			for _, o := range all {
				if o["kind"] == "ConfigMap" {
					checked(t, path, o["data"].(object)["fenceproxy.yaml"].(string), env)
				}
				pod := []string{"spec", "template", "spec"}
				for _, list := range []string{"containers", "initContainers"} {
					for _, c := range at(o, append(slices.Clone(pod), list)...) {
						for f := range c.(object) {
							if !slices.Contains(container, f) {
								t.Errorf("a container has no field %s", f)
							}
						}
					}
				}
				for _, n := range at(o, append(slices.Clone(pod), "volumes", "configMap", "name")...) {
					if !names["ConfigMap/"+n.(string)] {
						t.Errorf("no ConfigMap %v", n)
					}
				}
				for _, list := range []string{"containers", "initContainers"} {
					for _, n := range at(o, append(slices.Clone(pod), list, "envFrom", "secretRef", "name")...) {
						if !names["Secret/"+n.(string)] {
							t.Errorf("no Secret %v", n)
						}
					}
				}
				if o["kind"] == "Deployment" {
					c := at(o, append(slices.Clone(pod), "terminationGracePeriodSeconds")...)
					if len(c) != 1 || toSeconds(c[0]) <= drain {
						t.Errorf("a pod has %v s to end, and the proxy in it takes %v", c, drain)
					}
				}
				// Of pods that are ready while they hold a lock one is: a rollout, and a drain of its node, would wait for others.
				if hold && o["kind"] == "PodDisruptionBudget" {
					t.Error("a budget of ready pods lets nobody evict the holder")
				}
				s := at(o, "spec", "strategy", "rollingUpdate", "maxUnavailable")
				if hold && o["kind"] == "Deployment" && !slices.Equal(s, []any{"100%"}) {
					t.Errorf("maxUnavailable is %v: a rollout waits for ready pods for ever", s)
				}
				if o["kind"] == "Deployment" || o["kind"] == "PodDisruptionBudget" {
					labels := at(o, "spec", "selector", "matchLabels", "app")
					if len(labels) != 1 || !names["Deployment/"+labels[0].(string)] {
						t.Errorf("%v selects %v", o["kind"], labels)
					}
				}
			}
		})
	}
}

func TestCompose(t *testing.T) {
	all := documents(t, "compose/compose.yaml")
	if len(all) != 1 {
		t.Fatalf("%d documents", len(all))
	}
	services := all[0]["services"].(object)
	known := []string{"build", "image", "command", "environment", "volumes", "restart", "depends_on", "healthcheck"}
	for name, s := range services {
		for f := range s.(object) {
			if !slices.Contains(known, f) {
				t.Errorf("service %s: unknown field %s", name, f)
			}
		}
		for _, d := range at(s, "depends_on") {
			for other := range d.(object) {
				if services[other] == nil {
					t.Errorf("service %s depends on %s", name, other)
				}
			}
		}
		for _, v := range at(s, "volumes") {
			if file, _, _ := strings.Cut(v.(string), ":"); strings.HasPrefix(file, "./") {
				if _, err := os.Stat(filepath.Join("compose", file)); err != nil {
					t.Errorf("service %s: %v", name, err)
				}
			}
		}
	}
	config, err := os.ReadFile("compose/fenceproxy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checked(t, "compose", string(config), services["sidecar-1"].(object)["environment"].(object))
}

// The units name options that the binary has, and systemd takes them.
func TestSystemd(t *testing.T) {
	units, _ := filepath.Glob("systemd/*.service")
	if len(units) != 2 {
		t.Fatalf("%d units", len(units))
	}
	help, err := exec.Command(proxytest.Binary(t), "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, help)
	}
	dir := t.TempDir()
	for _, unit := range units {
		b, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindSubmatch(b)
		if line == nil {
			t.Fatalf("%s starts nothing", unit)
		}
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(string(line[1]), -1) {
			if !strings.Contains(string(help), flag+" ") {
				t.Errorf("%s: serve has no %s", unit, flag)
			}
		}
		// Its binary is not installed here.
		text := strings.ReplaceAll(string(b), "/usr/bin/fenceproxy", "/bin/true")
		name := strings.Replace(filepath.Base(unit), "@.", "@billing.", 1)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := exec.LookPath("systemd-analyze"); err != nil {
			t.Log("systemd-analyze is not installed: the units were not verified")
			continue
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", filepath.Join(dir, name)).CombinedOutput()
		if err != nil || strings.Contains(string(out), name) {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}
