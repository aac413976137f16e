package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var ctx = context.Background()

// fence f has tables of schema public.
func fence(names ...string) []Fence {
	f := Fence{Name: "f"}
	for _, n := range names {
		f.Tables = append(f.Tables, Pattern{Schema: "public", Table: n, Text: n})
	}
	return []Fence{f}
}

func mustRead(t testing.TB, conn *pgx.Conn, fences []Fence) *Snapshot {
	t.Helper()
	s, err := Read(ctx, conn, fences)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// text is a view as lines.
func (v FenceView) text() string {
	var lines []string
	for _, m := range v.All {
		why := ""
		if m.Named == nil {
			why = " below " + m.Parent.Name
		}
		if m.Exposed {
			why += " exposed"
		}
		lines = append(lines, fmt.Sprintf("%s %s%s", string(m.Kind), m.Name, why))
	}
	for _, r := range v.Routes {
		lines = append(lines, fmt.Sprintf("route %s: %s by %s", r.Name, r.Events, strings.Join(r.Via, " + ")))
	}
	for _, f := range v.Functions {
		lines = append(lines, "function "+f.Name)
	}
	return strings.Join(lines, "\n")
}

func wantText(t testing.TB, got, want string) {
	t.Helper()
	if want = strings.TrimSpace(want); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
