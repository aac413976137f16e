package conversation

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

func TestMain(m *testing.M) { pgtest.Main(m, proxytest.Cleanup) }

// scripts yields each conversation of testdata under the name of its file.
func scripts(t *testing.T, f func(t *testing.T, s Script)) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		list, err := ReadScripts(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			for _, s := range list {
				t.Run(s.Name, func(t *testing.T) {
					if major := pgtest.Shared(t).Major; s.Below > 0 && major >= s.Below {
						t.Skipf("PostgreSQL %d answers otherwise", major)
					}
					f(t, s)
				})
			}
		})
	}
}

// equal compares a route's replies with the direct ones where the script says that they are the same.
func equal(t *testing.T, s Script, r Route, direct, got [][]byte) {
	t.Helper()
	steps := []Step{{Want: s.Opening}}
	for _, step := range s.Steps {
		if step.Verb == "send" {
			steps = append(steps, step)
		}
	}
	if len(direct) != len(steps) || len(got) != len(steps) {
		return // the run has ended early and been reported
	}
	for i, step := range steps {
		if _, same := Expected(step.Want, r); same && !bytes.Equal(direct[i], got[i]) {
			t.Errorf("line %d, %s: bytes differ\ndirect %q\n%-6s %q", step.Line, r, direct[i], r, got[i])
		}
	}
}

// What is written as PostgreSQL's own answer is PostgreSQL's own answer. Without this the comparison below could be
// between two wrong things.
func TestScriptsHoldOnPostgreSQLItself(t *testing.T) {
	w := NewWorld(t, pgtest.Shared(t))
	scripts(t, func(t *testing.T, s Script) {
		if _, err := w.Run(t, s, Direct, nil); err != nil {
			t.Error(err)
		}
	})
}

// I1 and "the client cannot tell": through the enforcing proxy every reply is PostgreSQL's own, byte for byte, except
// where a stale write is refused.
func TestProxyRepliesAsPostgreSQLExceptForStaleWrites(t *testing.T) {
	c := pgtest.Shared(t)
	w := NewWorld(t, c)
	w.EnforcedRoutes(t, c.DSN(w.DB, "postgres"))
	scripts(t, func(t *testing.T, s Script) { compare(t, w, s, nil, Early, Late) })
}

func compare(t *testing.T, w *World, s Script, cut func([]byte) []int, routes ...Route) {
	t.Helper()
	direct, err := w.Run(t, s, Direct, nil)
	if err != nil {
		t.Fatalf("direct: %v", err)
	}
	for _, r := range routes {
		got, err := w.Run(t, s, r, cut)
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		equal(t, s, r, direct, got)
	}
}

// The same with every byte of the client in a packet of its own, and the server's bytes cut as well: no reply depends
// on where a read ends.
func TestRepliesDoNotDependOnWhereReadsEnd(t *testing.T) {
	c := pgtest.Shared(t)
	for name, cut := range map[string]func([]byte) []int{
		"single bytes":  proxytest.SingleBytes,
		"random pieces": proxytest.RandomPieces(1),
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(t, c)
			cutter := proxytest.NewCutter(t, c.Addr(), cut)
			w.EnforcedRoutes(t, cutter.DSN(t, c.DSN(w.DB, "postgres")))
			scripts(t, func(t *testing.T, s Script) {
				if s.Whole {
					t.Skip("depends on messages being read together")
				}
				compare(t, w, s, cut, Late)
			})
		})
	}
}

// observe and off change no byte, whatever the tokens.
func TestObserveAndOffChangeNoByte(t *testing.T) {
	c := pgtest.Shared(t)
	w := NewWorld(t, c)
	proxytest.Install(t, c.DSN(w.DB, "postgres"))
	for _, mode := range []Route{Observe, Off} {
		p := proxytest.Start(t, c.DSN(w.DB, "postgres"), "--fence", "acct=acct", "--catalog", "off", "--mode", string(mode))
		w.Through(mode, p.Addr(), p.Addr())
	}
	scripts(t, func(t *testing.T, s Script) { compare(t, w, s, nil, Observe, Off) })
}
