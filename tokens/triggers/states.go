package triggers

import (
	"context"
	"slices"

	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// State is what can be said of a trigger that should be there.
type State uint8

const (
	Present    State = iota // and firing
	Missing                 // writes to this relation are not guarded by the database
	Disabled                // by the table's owner, or for replicas only
	Altered                 // one of its name that does not do the same
	Impossible              // a relation that can have no such trigger
)

func (s State) String() string {
	return [...]string{"present", "missing", "disabled", "altered", "impossible"}[s]
}

// TableState is a trigger that a fenced relation should have.
type TableState struct {
	Relation catalog.Relation
	Fences   []string
	Form     string // name of the trigger
	State    State
	Always   bool // it fires for replicas too
}

// judge compares a trigger with the one that should be there. Who may create triggers on a table may replace ours, too;
// hence every part is compared.
func judge(t *found, f form, r catalog.Relation, version int, args []string) State {
	switch {
	case t == nil:
		return Missing
	case t.function != f.function || t.narrowed || t.kind&f.events(r, version) != f.events(r, version) || t.kind&typeRow != f.events(r, version)&typeRow:
		return Altered
	case !slices.Equal(t.args, args):
		return Altered
	case t.enabled != "O" && t.enabled != "A":
		return Disabled
	}
	return Present
}

// Guarded tells which fences' triggers fire on which tables, by the table's OID, configured or not: the statement trigger, or
// the one of row tokens where that is all that a fence has (on_stale: rewrite).
func Guarded(ctx context.Context, q catalog.Querier) (map[uint32][]string, error) {
	all, err := read(ctx, q)
	if err != nil {
		return nil, err
	}
	const writes = typeBefore | typeInsert | typeDelete | typeUpdate
	guarded := map[uint32][]string{}
	for table, list := range all {
		for _, t := range list {
			if t.narrowed || t.kind&writes != writes || t.enabled != "O" && t.enabled != "A" || len(t.args) < 2 {
				continue
			}
			switch {
			case t.function == statement.function:
				guarded[table] = append(guarded[table], t.args[1:]...)
			case t.name == rowTokenName && t.function != "" && t.kind&typeRow != 0 && len(t.args) > 2 && t.args[2] == "rewrite":
				guarded[table] = append(guarded[table], t.args[1])
			}
		}
	}
	return guarded, nil
}
