package tokens

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// frozen are the beginnings of the digests of the migrations that databases have run. They run each but once, so what is
// changed in one reaches new databases only: a change is a migration of its own.
var frozen = map[string]string{
	"001_marks.sql":                "891eeba47a6da6db",
	"002_guard.sql":                "8176664e309a3449",
	"003_raise.sql":                "20c311a3345bbe58",
	"004_operate.sql":              "01c364cbabda1f49",
	"005_lease.sql":                "d1758aff37fd3607",
	"006_advisory.sql":             "01df11dae659872e",
	"007_triggers.sql":             "c61a1f3921d50f37",
	"008_rowtokens.sql":            "76d99f435424bb08",
	"009_slots.sql":                "3f0aba3f938d8c7c",
	"010_slot_keys.sql":            "0972c685b64c47ad",
	"011_row_calls.sql":            "0d8cd88060554ec2",
	"012_bypass_sessions.sql":      "feadf81fc7040286",
	"013_row_claims.sql":           "50eef9af902b3e63",
	"014_inherited_row_tokens.sql": "504b505460ea379a",
	"015_hints.sql":                "a8992d2ca170ce2c",
	"016_truncate.sql":             "54acdb3513cc506a",
	"017_scope_bytes.sql":          "19e5e2cbba308a69",
}

func TestMigrationsStayAsTheyWereRun(t *testing.T) {
	list, err := schemaFiles.ReadDir("schema")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if name := f.Name(); name[0] == '0' && frozen[name] == "" {
			t.Errorf("%s is not listed", name)
		}
	}
	for name, want := range frozen {
		text, err := schemaFiles.ReadFile("schema/" + name)
		if err != nil {
			t.Error(err)
			continue
		}
		digest := sha256.Sum256(text)
		if got := hex.EncodeToString(digest[:])[:len(want)]; got != want {
			t.Errorf("%s was changed: %s, want %s", name, got, want)
		}
	}
}
