package rewrite

import (
	"strings"
	"testing"
)

// What cannot be given row tokens is refused with a hint that holds for this very table.
func TestHintsOfRowRefusals(t *testing.T) {
	rows := Fence{Name: "jobs/*", Tables: []string{"jobs"}, RowToken: `"Tok"`, BareToken: true}
	scoped := rows
	scoped.Scope = "jobs/{id}"
	for _, c := range []struct {
		fence     Fence
		sql, hint string
	}{
		{rows, "COPY jobs (id) FROM STDIN", `Make fence.row_default('jobs/*', true) the default of column "Tok", copy that column too,`},
		{scoped, "COPY jobs (id) FROM STDIN", "Copy into a table of your own and INSERT ... SELECT from it, with a list of columns."},
		{scoped, "COPY jobs FROM STDIN", "Copy into a table of your own and INSERT ... SELECT from it, with a list of columns."},
		{scoped, "INSERT INTO jobs (a) VALUES (1)", `Its scope depends on column "id"`},
		{rows, "INSERT INTO jobs VALUES (1)", "Name the columns"},
	} {
		a, err := New(Config{Fences: []Fence{c.fence}})
		if err != nil {
			t.Fatal(err)
		}
		var scratch Scratch
		st := a.Analyze(&scratch, []byte(c.sql), Settings{}).Statements[0]
		if st.Refuse == nil || st.Refuse.Code != "ZF004" || !strings.HasPrefix(st.Refuse.Hint, c.hint) {
			t.Errorf("%s: %+v, want the hint %s", c.sql, st.Refuse, c.hint)
		}
	}
	a, err := New(Config{Fences: []Fence{scoped}})
	if err != nil {
		t.Fatal(err)
	}
	var scratch Scratch
	if st := a.Analyze(&scratch, []byte("INSERT INTO jobs (id, a) SELECT id, a FROM own"), Settings{}).Statements[0]; st.Refuse != nil {
		t.Errorf("the hint for COPY is refused too: %+v", st.Refuse)
	}
}
