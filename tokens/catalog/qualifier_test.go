package catalog

import "testing"

// A schema for each tenant, with the same tables and functions in each: what one tenant's function writes is not the others'.
// What is not plainly qualified may mean any.
func TestQualifiersOfNames(t *testing.T) {
	for text, want := range map[string]bool{ // whether log may be that of schema d0
		"INSERT INTO d0.log VALUES (1)":           true,
		"INSERT INTO d1.log VALUES (1)":           false,
		"INSERT INTO D0 . LOG VALUES (1)":         true,
		"INSERT INTO app.d0.log VALUES (1)":       true,
		"INSERT INTO log SELECT * FROM d1.log":    true,
		`INSERT INTO "d1"."log" VALUES (1)`:       true, // quoted names are taken for any
		`INSERT INTO "d0".log VALUES (1)`:         true,
		`INSERT INTO "d1".log VALUES (1)`:         false,
		`INSERT INTO U&"d\0030".log VALUES (1)`:   true,
		"INSERT INTO d1/**/.log VALUES (1)":       true,
		"SELECT format('DELETE FROM %I.log', $1)": true,
		"SELECT format('DELETE FROM %s.log', $1)": true,
	} {
		if got := words(text)["log"].mayMean("d0"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, text := range []string{"UPDATE ÄCCT SET", `UPDATE "Äcct" SET`, "UPDATE Äcct SET"} {
		if words(text)["Äcct"] == nil {
			t.Errorf("%s: names are folded as PostgreSQL does it", text)
		}
	}
	f := Function{Language: "plpgsql", source: "BEGIN EXECUTE 'INSERT INTO d1.log' ; END"}
	if c := f.look(); !c.words["log"].mayMean("d0") {
		t.Error("a text that runs a text may mean any")
	}
}
