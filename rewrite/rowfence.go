package rewrite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// OnStale says what becomes of a write to a row that a newer token has written.
type OnStale uint8

const (
	StaleReject  OnStale = iota // ZF001
	StaleRewrite                // the row is left alone, as hand-written fencing SQL leaves it: needs Fence.RowToken
)

// Table is what a Catalog knows of a table.
type Table struct {
	// Columns are in their order, the row token's included; names as the catalog stores them. None: there is such a table, but
	// what it is like is not certain now.
	Columns []string
	// Types of the columns as SQL writes them, with modifiers (format_type(atttypid, atttypmod)); nil if not known. A new
	// row whose fence depends on a parameter (Scope) needs the type of that.
	Types []string
	// StampedByDefault: the default of the row token's column is fence.row_default(...), so that COPY stamps rows.
	StampedByDefault bool
}

// Catalog tells what text cannot: the columns of a table, for INSERT without a list of them. Safe for concurrent use, and
// quick: it is asked while a session waits. What is not known is not guessed: such statements are refused.
type Catalog interface {
	// Generation is another number whenever an answer of Table may be another one. Plans that rest on an answer hold
	// for its generation only.
	Generation() uint64
	// Table describes a table; schema is "" for a bare name, and then the answer is ok only if all tables of that name
	// that a session could mean have the same columns.
	Table(schema, name string) (t Table, ok bool)
}

// rowFence is a fence with row tokens, ready to be spliced.
type rowFence struct {
	index   int
	column  string // as the parser delivers it
	rewrite bool
	args    string // of fence.row_token and the like: the name, and whether a token without one is for the fence
	perRow  bool   // the statement calls for each row what it could call once
	wary    bool   // the statement may change the session's token while it runs
	each    string // the session's token, evaluated wherever it stands
	once    string // the same, evaluated once per statement
	literal string // the fence's name as a literal
	scope   *rowScope
}

// rowScope ties the row's fence to a column: jobs/{id}.
type rowScope struct {
	column  string
	literal string // the template
}

func newRowFence(i int, f *Fence) (*rowFence, error) {
	if f.RowToken == "" {
		if f.OnStale == StaleRewrite {
			return nil, errors.New("on_stale: rewrite needs a row_token")
		}
		if f.Scope != "" {
			return nil, errors.New("a scope needs a row_token")
		}
		return nil, nil
	}
	column, err := columnName(f.RowToken)
	if err != nil {
		return nil, fmt.Errorf("row_token %q: %w", f.RowToken, err)
	}
	if strings.ContainsAny(f.Name, "'\\\x00") || !isASCII(f.Name) {
		return nil, errors.New("its name cannot stand in SQL")
	}
	if strings.Count(f.Name, "*") > 1 {
		return nil, errors.New("its name has more than one *")
	}
	r := &rowFence{index: i, column: column, rewrite: f.OnStale == StaleRewrite, literal: "'" + f.Name + "'"}
	r.args = fmt.Sprintf("%s, %t", r.literal, f.BareToken)
	r.each = "fence.row_token(" + r.args + ")"
	r.once = "(SELECT " + r.each + ")"
	if f.Scope != "" {
		if r.scope, err = newRowScope(f.Scope); err != nil {
			return nil, fmt.Errorf("scope %q: %w", f.Scope, err)
		}
		if open, end := strings.IndexByte(f.Scope, '{'), strings.IndexByte(f.Scope, '}'); f.Scope[:open]+"*"+f.Scope[end+1:] != f.Name {
			return nil, fmt.Errorf("scope %q: with * for the column it must be the fence's name", f.Scope)
		}
		if r.scope.column == r.column {
			return nil, fmt.Errorf("scope %q: that is the row token's column", f.Scope)
		}
	}
	return r, nil
}

func newRowScope(s string) (*rowScope, error) {
	open, end := strings.IndexByte(s, '{'), strings.IndexByte(s, '}')
	if open < 0 || end < open || strings.Count(s, "{") > 1 || strings.Count(s, "}") > 1 {
		return nil, errors.New("it needs one column in braces, for example jobs/{id}")
	}
	if strings.ContainsAny(s, "'\\*\x00") || !isASCII(s[:open]+s[end:]) {
		return nil, errors.New("it cannot stand in SQL")
	}
	column, err := columnName(s[open+1 : end])
	if err != nil {
		return nil, err
	}
	return &rowScope{column, "'" + s[:open] + "{}" + s[end+1:] + "'"}, nil
}

func columnName(s string) (string, error) {
	name, rest, err := cutName(strings.TrimSpace(s))
	if err == nil && rest != "" {
		err = errors.New("not the name of a column")
	}
	return name, err
}

// quoteName writes an identifier as SQL does: always quoted, so that no keyword and no case matters.
func quoteName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// The expressions below are what is spliced. row is how the statement names the row that it writes. Everything in them
// is qualified: search_path must not choose a function or an operator. An empty row is one that the statement need not name:
// it has no other table.

func (f *rowFence) col(row string) string { return column(row, f.column) }

func column(row, name string) string {
	if row != "" {
		row += "."
	}
	return row + quoteName(name)
}

// scoped is what a function of a scope gets: the template and the row's part of it.
func (f *rowFence) scoped(row string) string {
	return f.scope.literal + ", " + column(row, f.scope.column) + "::pg_catalog.text)"
}

// stamp is the new value of the column of a row that was there before: checked, if stale rows are to be rejected; else it
// stands behind filter. What filter has let through with another token than that of now is checked too.
func (f *rowFence) stamp(row string) string {
	switch {
	case f.rewrite && f.wary:
		return f.claim(row)
	case f.rewrite && f.scope != nil:
		return "fence.row_scope_fitting(" + f.scoped(row)
	case f.rewrite && f.perRow:
		return "fence.row_fitting(" + f.args + ")"
	case f.rewrite:
		return f.once
	case f.scope != nil || f.perRow:
		return f.claim(row)
	}
	return "fence.row_stamp(" + f.col(row) + ", " + f.once + ", " + f.literal + ")"
}

// claim reads the token for each row.
func (f *rowFence) claim(row string) string {
	if f.scope != nil {
		return "fence.row_scope_claim(" + f.col(row) + ", " + f.scoped(row)
	}
	return "fence.row_claim(" + f.col(row) + ", " + f.args + ")"
}

// check is a condition that raises ZF001 for a stale row and is true for any other.
func (f *rowFence) check(row string) string {
	if f.scope != nil || f.perRow {
		return f.claim(row) + " IS NOT NULL"
	}
	return "fence.row_check(" + f.col(row) + ", " + f.once + ", " + f.literal + ")"
}

// filter is a condition that is not true for a stale row. NULL stands for a row that was never stamped.
func (f *rowFence) filter(row string) string {
	switch {
	case f.scope != nil:
		return "fence.row_scope_fits(" + f.col(row) + ", " + f.scoped(row)
	case f.perRow:
		return "fence.row_fits(" + f.col(row) + ", " + f.args + ")"
	}
	return "COALESCE(" + f.col(row) + ", 0) OPERATOR(pg_catalog.<=) " + f.once
}

// rowFences finds the row tokens of a table.
type rowFences struct {
	patterns []rowPattern
	views    []tableName
	set      FenceSet // of fences with StaleRewrite
	catalog  Catalog
}

type rowPattern struct {
	tableName
	fence *rowFence
}

func newRowFences(fences []Fence, catalog Catalog) (*rowFences, error) {
	r := &rowFences{catalog: catalog}
	for i := range fences {
		f, err := newRowFence(i, &fences[i])
		if err != nil {
			return nil, fmt.Errorf("fence %q: %w", fences[i].Name, err)
		}
		if f == nil {
			continue
		}
		for _, s := range fences[i].Tables {
			p, err := parsePattern(s)
			if err != nil {
				return nil, err
			}
			if p.name == "*" && catalog == nil {
				return nil, fmt.Errorf("fence %q: table %q: row tokens need the names of the tables", fences[i].Name, s)
			}
			r.patterns = append(r.patterns, rowPattern{p, f})
		}
		r.addFound(fences, i, f)
		if f.rewrite {
			r.set = r.set.Union(newFenceSet(i))
		}
	}
	if len(r.patterns) == 0 {
		return nil, nil
	}
	return r, nil
}

// scoped reports whether a fence has a scope.
func (r *rowFences) scoped() bool {
	return r != nil && slices.ContainsFunc(r.patterns, func(p rowPattern) bool { return p.fence.scope != nil })
}

// find returns the row fence of a table; many says that it has more than one. A bare name that could be a table of
// schema.* is one if the catalog has it there.
func (r *rowFences) find(n tableName, asked *[]taken) (f *rowFence, many bool) {
	if r == nil || isTempSchema(n.schema) {
		return nil, false
	}
	for i := range r.patterns {
		p := &r.patterns[i]
		switch {
		case p.name != "*":
			if !sameName(p.name, n.name) || p.schema != "" && n.schema != "" && !sameName(p.schema, n.schema) {
				continue
			}
		case n.schema != "":
			if !sameName(p.schema, n.schema) {
				continue
			}
		default:
			_, ok := r.catalog.Table(p.schema, n.name)
			*asked = append(*asked, taken{schema: p.schema, name: n.name, known: ok})
			if !ok {
				continue
			}
		}
		if f != nil && f != p.fence {
			return f, true
		}
		f = p.fence
	}
	return f, false
}
