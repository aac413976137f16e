package config

import (
	"strings"
	"testing"
)

// FuzzFile: no text makes the decoder panic, every problem has a place in the text, and what is accepted prints as
// something that is accepted.
func FuzzFile(f *testing.F) {
	for _, s := range []string{minimal, "listen: [a, {address: b, pooled: true}]", "a: &x 1\nb: *x", "fences:\n- name: x\n  tables: ['a\"']",
		"limits: {cache_bytes: 1MiB}", "<<: {mode: off}", "? [a]\n: b", "mode: !!str off", "- - -", "mode: |\n  off", "\x00", "mode:", "fences: [{}]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		errs := &Errors{File: "f", lines: strings.Split(text, "\n")}
		d := &file{config: Default(), errs: errs, origins: map[string]Origin{}}
		d.decode([]byte(text))
		d.check(true)
		if err := errs.orNil(); err != nil {
			_ = err.Error()
			for _, p := range errs.Problems {
				if p.Origin.Column < 0 || p.Message == "" {
					t.Errorf("problem %+v", p)
				}
			}
			return
		}
		var b strings.Builder
		if err := d.config.Write(&b); err != nil {
			t.Fatal(err)
		}
		again := &file{config: Default(), errs: &Errors{File: "f"}, origins: map[string]Origin{}}
		again.decode([]byte(b.String()))
		again.check(true)
		// A DSN without its password may need it.
		if err := again.errs.orNil(); err != nil && !strings.Contains(b.String(), hidden) {
			t.Errorf("printed as\n%s\nwhich is refused: %v", b.String(), err)
		}
	})
}
