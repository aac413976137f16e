package catalog

import "github.com/jackc/pgx/v5"

// Pattern is a table name of a configuration as PostgreSQL reads it: folded, without quotes, cut to 63 bytes.
type Pattern struct {
	Schema string // "" for any
	Table  string // "" for all tables of the schema
	Text   string // as written, for messages
}

// Matches says whether the pattern means this table.
func (p Pattern) Matches(schema, table string) bool {
	return (p.Schema == "" || p.Schema == schema) && (p.Table == "" || p.Table == table)
}

// Fence is a fence of the configuration.
type Fence struct {
	Name     string
	Tables   []Pattern
	RowToken string // column of row tokens as the catalog stores its name; "" for none
	Rewrite  bool   // on_stale: rewrite: the rows' tokens are all that is checked. Needs RowToken
	// Scope is the name of a row's fence with {} in place of the value of ScopeColumn, a column as the catalog stores its
	// name; both are "" without a scope. Needs RowToken.
	Scope, ScopeColumn string
}

// Kind is pg_class.relkind.
type Kind string

const (
	Table        Kind = "r"
	Partitioned  Kind = "p"
	Foreign      Kind = "f"
	View         Kind = "v"
	Materialized Kind = "m"
)

func (k Kind) String() string {
	switch k {
	case Table:
		return "table"
	case Partitioned:
		return "partitioned table"
	case Foreign:
		return "foreign table"
	case View:
		return "view"
	case Materialized:
		return "materialized view"
	}
	return "relation of kind " + string(k)
}

// Relation is a table, or what can be written like one.
type Relation struct {
	OID       uint32
	Schema    string
	Name      string
	Kind      Kind
	Partition bool // of a partitioned table
}

// String is the name as SQL writes it, quoted.
func (r Relation) String() string {
	return pgx.Identifier{r.Schema, r.Name}.Sanitize()
}
