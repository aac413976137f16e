package catalog

import "strings"

// Events are kinds of statements on a relation.
type Events uint8

const (
	Insert Events = 1 << iota
	Update
	Delete
	Truncate
	Select
)

// anyWrite is what a fence forbids on its own relations.
const anyWrite = Insert | Update | Delete | Truncate

func (e Events) String() string {
	var list []string
	for i, name := range []string{"INSERT", "UPDATE", "DELETE", "TRUNCATE", "SELECT"} {
		if e&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, ", ")
}

// triggerEvents reads pg_trigger.tgtype.
func triggerEvents(tgtype int) (e Events) {
	for bit, event := range map[int]Events{1 << 2: Insert, 1 << 3: Delete, 1 << 4: Update, 1 << 5: Truncate} {
		if tgtype&bit != 0 {
			e |= event
		}
	}
	return e
}
