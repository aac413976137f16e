package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Source is what Load reads. The zero Source gives the defaults.
type Source struct {
	File        string   // path of the YAML file; "" for none
	Environment []string // as os.Environ gives it
	Flags       *Flags   // nil for none
	Partial     bool     // accept a configuration that serve could not start with, as a file whose upstream is a flag
}

// Load reads and checks a configuration. warnings are for the operator and no errors. err is an *Errors, or an error
// of reading the file.
func Load(src Source) (c *Config, warnings []string, err error) {
	errs := &Errors{File: src.File}
	f := &file{config: Default(), errs: errs, origins: map[string]Origin{}}
	if src.File != "" {
		text, err := os.ReadFile(src.File)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read the configuration: %w", err)
		}
		errs.lines = strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
		f.decode(text)
	}
	warnings = f.environment(src.Environment)
	if src.Flags != nil {
		src.Flags.apply(f)
	}
	f.check(src.Partial)
	if err := errs.orNil(); err != nil {
		return nil, warnings, err
	}
	return f.config, warnings, nil
}

// override sets s to values from the environment or a flag.
func (f *file) override(s *setting, name string, values []string) {
	f.origins[s.key] = Origin{Name: name}
	if s.kind == kindFences {
		f.fences, f.bad = nil, nil
	}
	for _, v := range values {
		if err := s.set(f.config, v); err != nil {
			f.errs.add(Origin{Name: name}, "%s", err)
		}
		if s.kind == kindFences {
			f.fences = append(f.fences, Origin{Name: name})
		}
	}
}

// serviceLink are the variables that Kubernetes and Docker put into a container's environment for a service that is
// itself called fenceproxy. They are no settings of ours.
var serviceLink = regexp.MustCompile(`^FENCEPROXY_(\w+_)?(SERVICE_(HOST|PORT)|PORT)(_\w+)?$`)

func (f *file) environment(environ []string) (warnings []string) {
	values := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "FENCEPROXY_") && !serviceLink.MatchString(name) && name != "FENCEPROXY_CONFIG" && name != backendVariable {
			values[name] = value
		}
	}
	for i := range settings {
		f.fromEnvironment(&settings[i], values, true)
	}
	_, both := f.origins["listen"]
	f.fromEnvironment(&pooled, values, !both || f.origins["listen"].Name != "FENCEPROXY_LISTEN")
	for name := range values {
		warnings = append(warnings, fmt.Sprintf("environment variable %s is not a setting of fenceproxy", name))
	}
	return warnings
}

func (f *file) fromEnvironment(s *setting, values map[string]string, reset bool) {
	value, has := values[s.env()]
	delete(values, s.env())
	if !has || value == "" { // an empty variable is how orchestrators write "not set"
		return
	}
	list := []string{value}
	if s.list() {
		if reset {
			s.reset(f.config)
		}
		list = splitList(s.kind, value)
	}
	f.override(s, s.env(), list)
}

// splitList splits the value of a variable that holds a list: at commas, fences at semicolons.
func splitList(k kind, value string) []string {
	separator := ","
	if k == kindFences {
		separator = ";"
	}
	var list []string
	for _, v := range strings.Split(value, separator) {
		if v = strings.TrimSpace(v); v != "" {
			list = append(list, v)
		}
	}
	return list
}
