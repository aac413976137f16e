package rewrite

import "testing"

// turningCatalog becomes another one while it is asked.
type turningCatalog struct {
	generation uint64
	known      bool
	turn       func(*turningCatalog)
}

func (c *turningCatalog) Generation() uint64 { return c.generation }

func (c *turningCatalog) Table(schema, name string) (Table, bool) {
	if turn := c.turn; turn != nil {
		c.turn = nil
		turn(c)
	}
	if !c.known {
		return Table{}, true
	}
	return rowColumns.Table(schema, name)
}

// I5: DDL that is seen, or ends, while a text is judged leaves no plan behind that says of one generation what another one has
// answered.
func TestI5CatalogThatTurnsWhileItIsAsked(t *testing.T) {
	const sql = "INSERT INTO t VALUES (1, 2)"
	for _, known := range []bool{true, false} {
		generation := map[bool]uint64{true: 2, false: 3}
		c := &turningCatalog{generation: generation[known], known: known}
		a := newAnalyzer(t, Config{Catalog: c, Fences: rowConfig(StaleReject).Fences})
		var sc Scratch
		c.turn = func(c *turningCatalog) { c.generation, c.known = generation[!known], !known }
		a.Analyze(&sc, []byte(sql), Settings{})
		c.generation, c.known = generation[known], known
		if an := a.Analyze(&sc, []byte(sql), Settings{}); an.Spliced() != known {
			t.Errorf("known %v: spliced %v, %v", known, an.Spliced(), an.Statements[0].Refuse)
		}
	}
}
