package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/wire"
)

// What PostgreSQL cannot read is the client's error, with the position in the client's text, though a guard stands in the
// same string: grammars of versions differ. What it cannot read of the guard is the guard's.
func TestSyntaxErrorBehindAGuard(t *testing.T) {
	const sql = "UPDATE log SET v = 1; UPDATE log SET v = 2"
	for _, tc := range []struct {
		name, at string
		want     string
		position int
	}{
		{name: "first statement", at: "log SET v = 1", want: "E(42601)", position: 8},
		{name: "second statement", at: "v = 2", want: "E(42601)", position: strings.Index(sql, "v = 2") + 1},
		{name: "guard", at: "guard_session", want: "E(ZF005)"},
		{name: "nowhere", want: "E(ZF005)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Tokenless = TokenlessReadOnly
			c := newTalk(t, cfg, "")
			c.client("Q " + sql)
			sent := string(joined(c.out.ToServer)[wire.HeaderLen:])
			reply := "E 42601"
			if tc.at != "" {
				at := strings.Index(sent, tc.at)
				if at < 0 {
					t.Fatalf("%q is not in %q", tc.at, sent)
				}
				reply = fmt.Sprintf("E 42601@%d", at+1)
			}
			same(t, "reply", c.server(reply), tc.want)
			_, size, _ := wire.Frame(joined(c.out.ToClient))
			text, _ := wire.ErrorFields(joined(c.out.ToClient)[wire.HeaderLen:size]).Get(wire.FieldPosition)
			if got := string(text); tc.position > 0 && got != fmt.Sprint(tc.position) {
				t.Errorf("position %s, want %d", got, tc.position)
			}
			same(t, "end", c.server("Z I"), "Z(I)")
		})
	}
}
