package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// addFence reads a fence as flags and environment write it: NAME=TABLE[,TABLE...].
func addFence(c *Config, v string) error {
	name, tables, has := strings.Cut(v, "=")
	if !has {
		return fmt.Errorf("%s is not a fence: want NAME=TABLE[,TABLE...]", quote(v))
	}
	f := Fence{Name: name}
	if err := checkFenceName(c, name); err != nil {
		return err
	}
	for _, t := range splitTables(tables) {
		if err := addTable(&f, strings.TrimSpace(t)); err != nil {
			return fmt.Errorf("fence %s: %w", name, err)
		}
	}
	if len(f.Tables) == 0 {
		return fmt.Errorf("fence %s has no tables", name)
	}
	c.Fences = append(c.Fences, f)
	return nil
}

func checkFenceName(c *Config, name string) error {
	if name == "" {
		return errors.New("a fence needs a name")
	}
	if err := tokens.ValidFence(name); err != nil {
		return fmt.Errorf("%s is not a fence name: %s", quote(name), err)
	}
	for _, f := range c.Fences {
		if f.Name == name {
			return fmt.Errorf("fence %s is defined twice", name)
		}
	}
	return nil
}

func addTable(f *Fence, table string) error {
	parts, rest := splitName(table)
	switch {
	case rest != "" || len(parts) == 0:
		return fmt.Errorf("%s is not a table: want name, schema.name or schema.*, quoted as in SQL", quote(table))
	case len(parts) > 2:
		return fmt.Errorf("%s has %d parts: a table is name or schema.name, the database is the session's", quote(table), len(parts))
	case parts[0] == "*":
		return fmt.Errorf("%s would fence every table: name the schema, as in public.*", quote(table))
	case slices.Contains(f.Tables, table):
		return fmt.Errorf("table %s is listed twice", table)
	}
	f.Tables = append(f.Tables, table)
	return nil
}

// splitTables splits at commas outside double quotes.
func splitTables(s string) []string {
	quoted := false
	return strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ',' && !quoted
	})
}

// splitName splits a dotted name into its parts as PostgreSQL reads them, "*" for a star behind the first. rest is what
// cannot be read; the parts keep their quotes.
func splitName(s string) (parts []string, rest string) {
	for {
		n := identifierLen(s)
		if n == 0 && s == "*" {
			return append(parts, s), ""
		}
		if n == 0 {
			return parts, s + " " // not empty: an empty part is an error too
		}
		parts = append(parts, s[:n])
		s = s[n:]
		if s == "" {
			return parts, ""
		}
		if s[0] != '.' {
			return parts, s
		}
		s = s[1:]
	}
}

// identifierLen is the length of the identifier at the start of s, quoted or not (scan.l); 0 when there is none.
func identifierLen(s string) int {
	if strings.HasPrefix(s, `"`) {
		for i := 1; i < len(s); i++ {
			if s[i] != '"' {
				continue
			}
			if i+1 < len(s) && s[i+1] == '"' {
				i++
				continue
			}
			if i == 1 {
				return 0 // "" is no identifier
			}
			return i + 1
		}
		return 0
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		start := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
		if !start && (i == 0 || (c < '0' || c > '9') && c != '$') {
			return i
		}
	}
	return len(s)
}
