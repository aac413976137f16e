package config

import (
	"strings"
	"unicode/utf8"
)

// Pattern is a table name of a fence as PostgreSQL reads it: folded, without quotes, cut to 63 bytes.
type Pattern struct {
	Schema string // "" for any
	Table  string // "" for all tables of the schema
	Text   string // as written
}

// Patterns are the fence's tables.
func (f Fence) Patterns() []Pattern {
	patterns := make([]Pattern, len(f.Tables))
	for i, t := range f.Tables {
		parts, _ := splitName(t)
		p := Pattern{Text: t}
		if len(parts) == 2 {
			p.Schema = fold(parts[0])
		}
		if last := parts[len(parts)-1]; last != "*" {
			p.Table = fold(last)
		}
		patterns[i] = p
	}
	return patterns
}

// Matches says whether the pattern means this table.
func (p Pattern) Matches(schema, table string) bool {
	return (p.Schema == "" || p.Schema == schema) && (p.Table == "" || p.Table == table)
}

// fold reads one identifier (scansup.c downcase_truncate_identifier).
func fold(part string) string {
	if quoted, is := strings.CutPrefix(part, `"`); is {
		part = strings.ReplaceAll(strings.TrimSuffix(quoted, `"`), `""`, `"`)
	} else {
		b := []byte(part)
		for i, c := range b {
			if c >= 'A' && c <= 'Z' {
				b[i] = c + 'a' - 'A'
			}
		}
		part = string(b)
	}
	const longest = 63 // NAMEDATALEN - 1
	if len(part) > longest {
		cut := longest
		for cut > 0 && !utf8.RuneStart(part[cut]) {
			cut--
		}
		part = part[:cut]
	}
	return part
}
