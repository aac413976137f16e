package tokens

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// The hint of ZF002 can be pasted: it names a token of the fence that misses one, and the setting takes it.
func TestHintOfMissingToken(t *testing.T) {
	w := newWorld(t)
	a := w.dial("app")
	for call, want := range map[string]string{
		"fence.guard(ARRAY['billing'], 'billing')":          "34",
		"fence.guard(ARRAY['billing'], '')":                 "billing=34",
		"fence.guard_pattern('accounts/*', '', false)":      "accounts/42=34",
		"fence.row_token('accounts/*', false)":              "accounts/42=34",
		"fence.row_claim(0, 'accounts/*', false)":           "accounts/42=34",
		"fence.row_new('accounts/7')":                       "accounts/7=34",
		"fence.row_new(NULL)":                               "jobs/42=34",
		"fence.row_scope_claim(NULL, 'accounts/{}', '8')":   "accounts/8=34",
		"fence.row_scope_claim(NULL, 'accounts/{}/x', '8')": "accounts/8/x=34",
	} {
		_, err := a.Exec(ctx, "SELECT "+call)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "ZF002" {
			t.Errorf("%s: %v", call, err)
			continue
		}
		_, pasted, _ := strings.Cut(pg.Hint, ": SET fence.token = ")
		if pasted = strings.TrimSuffix(pasted, "."); pasted != "'"+want+"'" {
			t.Errorf("%s: hint %q, want one with %s", call, pg.Hint, want)
		}
		if _, err := Parse(want); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}
