package config

import (
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	for _, tc := range []struct {
		text, schema, table string
		want                bool
	}{
		{"invoices", "public", "invoices", true},
		{"Invoices", "any", "invoices", true},
		{`"Invoices"`, "any", "invoices", false},
		{`"Invoices"`, "any", "Invoices", true},
		{"accounting.payments", "accounting", "payments", true},
		{"accounting.payments", "public", "payments", false},
		{"Ledger.*", "ledger", "x", true},
		{"ledger.*", "public", "x", false},
		{`"a.b"."c""d"`, "a.b", `c"d`, true},
		{strings.Repeat("x", 70), "s", strings.Repeat("x", 63), true},
		{`"` + strings.Repeat("x", 62) + `ü"`, "s", strings.Repeat("x", 62), true},
	} {
		if got := (Fence{Tables: []string{tc.text}}).Patterns()[0].Matches(tc.schema, tc.table); got != tc.want {
			t.Errorf("%s matches %s.%s: %v, want %v", tc.text, tc.schema, tc.table, got, tc.want)
		}
	}
}
