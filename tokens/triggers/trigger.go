package triggers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// The names of the triggers, one of each on a table at most.
const (
	statementName = "fence_guard"
	rowName       = "fence_guard_row"
	truncateName  = "fence_guard_truncate"
	// and rowTokenName
)

// form is a kind of trigger.
type form struct {
	name     string
	function string // in schema fence, without arguments
	row      bool
	truncate bool   // of TRUNCATE only
	own      string // SQL that makes the function, when the fence schema does not have it
}

var (
	statement = form{name: statementName, function: "guard_write"}
	row       = form{name: rowName, function: "guard_row", row: true}
	truncate  = form{name: truncateName, function: "guard_truncate", truncate: true}
)

// Bits of pg_trigger.tgtype (pg_trigger.h).
const (
	typeRow      = 1 << 0
	typeBefore   = 1 << 1
	typeInsert   = 1 << 2
	typeDelete   = 1 << 3
	typeUpdate   = 1 << 4
	typeTruncate = 1 << 5
)

// events is the trigger's tgtype on a relation. Foreign tables have TRUNCATE triggers from PostgreSQL 16 on, row triggers
// never have.
func (f form) events(r catalog.Relation, version int) int {
	t := typeBefore | typeInsert | typeDelete | typeUpdate
	switch {
	case f.truncate:
		return typeBefore | typeTruncate
	case f.row:
		return t | typeRow
	case !truncates(r, version):
		return t
	}
	return t | typeTruncate
}

func truncates(r catalog.Relation, version int) bool {
	return r.Kind != catalog.Foreign || version >= 160000
}

func (f form) create(r catalog.Relation, version int, args []string, always bool) string {
	events, each := "INSERT OR UPDATE OR DELETE", "STATEMENT"
	if f.truncate {
		events = "TRUNCATE"
	} else if f.events(r, version)&typeTruncate != 0 {
		events += " OR TRUNCATE"
	}
	if f.row {
		each = "ROW"
	}
	// OR REPLACE needs the right to create triggers only, where DROP needs the table's owner.
	sql := f.own + fmt.Sprintf("CREATE OR REPLACE TRIGGER %s BEFORE %s ON %s FOR EACH %s EXECUTE FUNCTION fence.%s(%s);",
		f.name, events, r, each, f.function, literals(args))
	if always {
		sql += "\n" + f.enable(r, always)
	}
	return sql
}

func (f form) enable(r catalog.Relation, always bool) string {
	how, only := "ENABLE", "ONLY "
	if always {
		how = "ENABLE ALWAYS"
	}
	if f.row {
		only = "" // its clones on the partitions too
	}
	return fmt.Sprintf("ALTER TABLE %s%s %s TRIGGER %s;", only, r, how, f.name)
}

func drop(name, table string) string {
	return fmt.Sprintf("DROP TRIGGER IF EXISTS %s ON %s;", name, table)
}

// literals quotes names of fences, which hold no quote and no backslash (tokens.ValidName).
func literals(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strings.Join(quoted, ", ")
}

// arguments of the triggers: the fence of bare tokens, then the fences in the order of bytes, which is that of fence.guard.
func arguments(bare string, fences []string) []string {
	sorted := slices.Clone(fences)
	slices.Sort(sorted)
	return append([]string{bare}, sorted...)
}
