package rewrite

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxName is the longest identifier in bytes (NAMEDATALEN - 1 of a standard build).
const maxName = 63

// foldName folds an unquoted identifier: ASCII letters only, as downcase_identifier does in a multibyte encoding.
func foldName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// clipName truncates an identifier to maxName bytes without cutting a character (pg_mbcliplen).
func clipName(s string) string {
	if len(s) <= maxName {
		return s
	}
	n := maxName
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// sameName compares identifiers as the parser delivers them. Letters outside ASCII are compared without case: a
// database in a single-byte encoding folds them in unquoted names, and the tree does not tell which names were quoted.
func sameName(a, b string) bool {
	return a == b || !isASCII(a) && !isASCII(b) && strings.EqualFold(a, b)
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// tableName is a name as SQL writes it. schema is "" for a bare name; name is "*" only in a pattern.
type tableName struct{ schema, name string }

// parsePattern reads a table of Fence.Tables.
func parsePattern(s string) (tableName, error) {
	first, rest, err := cutName(strings.TrimSpace(s))
	if err != nil {
		return tableName{}, err
	}
	if rest == "" {
		return tableName{name: first}, nil
	}
	if rest = strings.TrimSpace(rest[1:]); rest == "*" {
		return tableName{first, "*"}, nil
	}
	second, rest, err := cutName(rest)
	if err != nil {
		return tableName{}, err
	}
	if rest != "" {
		return tableName{}, errors.New("more than schema and table")
	}
	return tableName{first, second}, nil
}

// cutName reads an identifier at the start of s. rest is empty or begins with a dot.
func cutName(s string) (name, rest string, err error) {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return "", "", errors.New("not UTF-8 text")
	}
	if strings.HasPrefix(s, `"`) {
		t, fail := lexQuoted([]byte(s), 0, 0, quoted)
		if fail != "" {
			return "", "", errors.New("empty or unterminated quoted name")
		}
		name = strings.ReplaceAll(s[1:t.end-1], `""`, `"`)
		s = s[t.end:]
	} else {
		n := 0
		for n < len(s) && class[s[n]]&clsWordCont != 0 && (n > 0 || class[s[n]]&clsWordStart != 0) {
			n++
		}
		if n == 0 {
			return "", "", fmt.Errorf("no name at %q", s)
		}
		name, s = foldName(s[:n]), s[n:]
	}
	if s = strings.TrimLeft(s, " \t"); s != "" && s[0] != '.' {
		return "", "", fmt.Errorf("cannot read %q: names with other characters than letters, digits, _ and $ need double quotes", s)
	}
	return clipName(name), s, nil
}

// tables finds the fences of a table by its name.
type tables struct {
	patterns []tablePattern
	all      FenceSet
}

type tablePattern struct {
	tableName
	fence FenceSet
	exact bool // a * in it is a character of the name
}

func newTables(fences []Fence) (tables, error) {
	var t tables
	seen := map[string]bool{}
	index := make([]int, 0, len(fences))
	for i, f := range fences {
		if f.Name == "" {
			return tables{}, fmt.Errorf("fence %d has no name", i+1)
		}
		if seen[f.Name] {
			return tables{}, fmt.Errorf("fence %q is configured twice", f.Name)
		}
		seen[f.Name] = true
		index = append(index, i)
		for _, s := range f.Tables {
			p, err := parsePattern(s)
			if err != nil {
				return tables{}, fmt.Errorf("fence %q: table %q: %w", f.Name, s, err)
			}
			if p.schema == fenceSchema {
				return tables{}, fmt.Errorf("fence %q: table %q: schema %s belongs to fenceproxy", f.Name, s, fenceSchema)
			}
			t.patterns = append(t.patterns, tablePattern{tableName: p, fence: newFenceSet(i)})
		}
		for _, names := range [][]Name{f.Found.Children, f.Found.Views} {
			for _, n := range names {
				t.patterns = append(t.patterns, tablePattern{tableName{n.Schema, n.Name}, newFenceSet(i), true})
			}
		}
	}
	t.all = newFenceSet(index...)
	return t, nil
}

// find returns the fences of every table that the name could mean. A bare name can be in any schema, and any bare name
// can be in schema.*: search_path is the server's. Temporary tables named by their schema are never fenced.
func (t *tables) find(n tableName) FenceSet {
	var s FenceSet
	if isTempSchema(n.schema) {
		return s
	}
	for i := range t.patterns {
		p := &t.patterns[i]
		if (p.name == "*" && !p.exact || sameName(p.name, n.name)) && (p.schema == "" || n.schema == "" || sameName(p.schema, n.schema)) {
			s = s.Union(p.fence)
		}
	}
	return s
}

// inSchema returns the fences that have or may have a table in the schema: bare patterns may mean it.
func (t *tables) inSchema(schema string) FenceSet {
	var s FenceSet
	for i := range t.patterns {
		if p := &t.patterns[i]; p.schema == "" || sameName(p.schema, schema) {
			s = s.Union(p.fence)
		}
	}
	return s
}

// ofSchema returns the fences of patterns that name the schema.
func (t *tables) ofSchema(schema string) FenceSet {
	var s FenceSet
	for i := range t.patterns {
		if p := &t.patterns[i]; p.schema != "" && sameName(p.schema, schema) {
			s = s.Union(p.fence)
		}
	}
	return s
}

// isTempSchema: pg_temp is the session's own; pg_temp_3 and pg_toast_temp_3 are what it stands for.
func isTempSchema(schema string) bool {
	return strings.HasPrefix(schema, "pg_temp") || strings.HasPrefix(schema, "pg_toast_temp")
}

// fenceSchema is where fenceproxy keeps its marks.
const fenceSchema = "fence"
