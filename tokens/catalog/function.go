package catalog

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Function is a function or a procedure of the database's users.
type Function struct {
	OID      uint32
	Schema   string
	Name     string
	Args     string // as pg_get_function_identity_arguments tells them
	Language string

	extension bool
	builtin   bool // a function of pg_catalog has the same name
	source    string
	body      string   // prosqlbody of BEGIN ATOMIC
	uses      []uint32 // functions of the users that it was made of: of an aggregate, in defaults of arguments
}

func (f Function) String() string {
	return pgx.Identifier{f.Schema, f.Name}.Sanitize() + "(" + f.Args + ")"
}

// aggregate: it has no code of its own (pg_aggregate.c AggregateCreate).
func (f Function) aggregate() bool { return f.Language == "internal" && f.source == "aggregate_dummy" }

func readFunctions(ctx context.Context, q Querier) ([]Function, error) {
	rows, err := q.Query(ctx, `
		SELECT p.oid, n.nspname::text, p.proname::text, pg_catalog.pg_get_function_identity_arguments(p.oid), l.lanname::text,
		  EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'),
		  EXISTS (SELECT FROM pg_catalog.pg_proc b WHERE b.proname = p.proname AND b.pronamespace = 'pg_catalog'::pg_catalog.regnamespace),
		  CASE WHEN p.prosqlbody IS NULL THEN coalesce(p.prosrc, '') ELSE '' END, coalesce(p.prosqlbody::text, ''),
		  ARRAY(SELECT d.refobjid FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid
		    AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid >= 16384 ORDER BY 1)
		FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace JOIN pg_catalog.pg_language l ON l.oid = p.prolang
		WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'fence')
		ORDER BY n.nspname, p.proname, p.oid`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (f Function, err error) {
		return f, row.Scan(&f.OID, &f.Schema, &f.Name, &f.Args, &f.Language, &f.extension, &f.builtin, &f.source, &f.body, &f.uses)
	})
}

// code is what can be told of a function's body.
type code struct {
	writes  []write  // BEGIN ATOMIC only
	reads   []uint32 // likewise
	calls   []uint32 // of BEGIN ATOMIC, and Function.uses
	words   map[string]qualifiers
	changes bool // a text that has a word of a writing statement
	dynamic bool // a text that runs a text
	closed  bool // not SQL or PL/pgSQL: what it does cannot be read
}

// look reads a body. A text is taken for its words: comments and literals count too, so a table's name in one makes the
// function a suspect, and no quoting hides one.
func (f Function) look() code {
	if f.body != "" {
		tree := parseTree(f.body)
		return code{writes: writes(tree), reads: reads(tree), calls: append(calls(f.body), f.uses...)}
	}
	c := code{words: words(f.source), calls: f.uses, closed: f.Language != "sql" && f.Language != "plpgsql" && !f.aggregate()}
	for _, w := range []string{"insert", "update", "delete", "merge", "truncate", "copy", "drop", "alter", "refresh"} {
		c.changes = c.changes || c.words[w] != nil
	}
	c.dynamic = f.Language == "plpgsql" && c.words["execute"] != nil
	if c.dynamic { // what it runs is not what it says
		for _, q := range c.words {
			q[""] = true
		}
	}
	return c
}

// qualifiers are the schemas that a text writes in front of a name, in lower case; "" where it writes none, or may mean any.
type qualifiers map[string]bool

// mayMean reports whether the name may be that of something in the schema.
func (q qualifiers) mayMean(schema string) bool { return q[""] || q[strings.ToLower(schema)] }

// words are the identifiers of a text: in lower case, and those in double quotes as they are, too.
func words(text string) map[string]qualifiers {
	set := map[string]qualifiers{}
	add := func(word, qualifier string) {
		if set[word] == nil {
			set[word] = qualifiers{}
		}
		set[word][qualifier] = true
	}
	start := -1
	for i := 0; i <= len(text); i++ {
		if i < len(text) && isWord(text[i]) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 {
			q := qualifier(text[:start])
			add(strings.ToLower(text[start:i]), q)
			add(folded(text[start:i]), q)
			add(text[start:i], q)
			start = -1
		}
	}
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			add(part, "")
		}
	}
	return set
}

// folded is the word as PostgreSQL folds it where a character has several bytes: ASCII only (scansup.c
// downcase_identifier).
func folded(word string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, word)
}

// qualifier is the name in front of a dot at the end of a text. What is not plainly one is "": a name that a format or an
// escape makes, or one with a comment around the dot.
func qualifier(before string) string {
	space := func(s string) string { return strings.TrimRight(s, " \t\r\n\f\v") }
	before = space(strings.TrimSuffix(before, `"`))
	before, dot := strings.CutSuffix(before, ".")
	before = space(before)
	if !dot {
		return ""
	}
	if inner, quoted := strings.CutSuffix(before, `"`); quoted {
		name := inner[strings.LastIndexByte(inner, '"')+1:]
		if strings.ContainsAny(name, `\%`) {
			return ""
		}
		return strings.ToLower(name)
	}
	at := len(before)
	for at > 0 && isWord(before[at-1]) {
		at--
	}
	if at > 0 && before[at-1] == '%' {
		return ""
	}
	return strings.ToLower(before[at:])
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}
