package rewrite

import (
	"strings"
	"testing"
)

// I5: a name that could be a fenced table is one.
func TestI5Names(t *testing.T) {
	long := strings.Repeat("a", 70)
	umlauts := strings.Repeat("a", 62) + "äöü" // 62 bytes, then two-byte letters: the cut falls inside one
	for _, tt := range []struct {
		pattern, target string
		fenced          bool
	}{
		{`accounts`, `accounts`, true},
		{`accounts`, `ACCOUNTS`, true},
		{`ACCOUNTS`, `accounts`, true},
		{`accounts`, `"accounts"`, true},
		{`accounts`, `"Accounts"`, false},
		{`"Accounts"`, `"Accounts"`, true},
		{`"Accounts"`, `Accounts`, false},
		{`accounts`, `U&"\0061ccounts"`, true},
		{`accounts`, `U&"!0061ccounts" UESCAPE '!'`, true},
		{`accounts`, `public.accounts`, true},
		{`accounts`, `any."accounts"`, false}, // any is reserved: does not parse
		{`accounts`, `"any".accounts`, true},
		{`accounts`, `db.public.accounts`, true},
		{`accounts`, `accounts_old`, false},
		{`accounts`, `accounts.x`, false},
		{`accounts`, `pg_temp.accounts`, false},
		{`accounts`, `pg_temp_3.accounts`, false},
		{`app.jobs`, `jobs`, true},
		{`app.jobs`, `app.jobs`, true},
		{`app.jobs`, `APP.Jobs`, true},
		{`app.jobs`, `db.app.jobs`, true},
		{`app.jobs`, `other.jobs`, false},
		{`app.jobs`, `app.job`, false},
		{`app.*`, `app.anything`, true},
		{`app.*`, `anything`, true},
		{`app.*`, `other.anything`, false},
		{`app.*`, `pg_temp.anything`, false},
		{` app . "Jobs" `, `app."Jobs"`, true},
		{`"a""b"`, `"a""b"`, true},
		{`"a.b"`, `"a.b"`, true},
		{`"a.b"`, `a.b`, false},
		{`übersicht`, `übersicht`, true},
		{`Übersicht`, `Übersicht`, true},
		{`übersicht`, `ÜBERSICHT`, true}, // a LATIN1 database folds it
		{`übersicht`, `übersichten`, false},
		{long, long, true},
		{long[:63], long, true},
		{long, long[:63], true},
		{long, long[:62], false},
		{long, long + "b", true},
		{umlauts, umlauts, true},
		{umlauts[:62], umlauts, true}, // the letter that does not fit goes as a whole
		{`"` + long + `"`, long, true},
		{`a$1`, `A$1`, true},
	} {
		cfg := Config{Fences: []Fence{{Name: "f", Tables: []string{tt.pattern}}}}
		a, err := New(cfg)
		if err != nil {
			t.Errorf("pattern %s: %v", tt.pattern, err)
			continue
		}
		var sc Scratch
		for _, form := range []string{"UPDATE ? SET a = 1", "DELETE FROM ?", "INSERT INTO ? VALUES (1)", "COPY ? FROM STDIN", "TRUNCATE ?", "DROP TABLE ?"} {
			sql := strings.Replace(form, "?", tt.target, 1)
			an := a.Analyze(&sc, []byte(sql), Settings{})
			if an.Failure != "" {
				if tt.fenced {
					t.Errorf("%s: %s", sql, an.Failure)
				}
				continue
			}
			if got := an.Fences.Has(0); got != tt.fenced {
				t.Errorf("pattern %s: %s: fenced %v", tt.pattern, sql, got)
			}
		}
	}
}

func TestFencesOfSchemaPattern(t *testing.T) {
	runTable(t, fencesBySchema, []tableTest{
		{`UPDATE accounts SET a = 1`, "write billing+archive"},
		{`UPDATE x SET a = 1`, "write archive"},
		{`UPDATE arch.x SET a = 1`, "write archive"},
		{`UPDATE arch.accounts SET a = 1`, "write billing+archive"},
		{`UPDATE public.x SET a = 1`, "write plain"},
		{`CREATE TEMP TABLE x AS SELECT 1`, "write plain"},
		{`DROP SCHEMA arch CASCADE`, "opaque billing+archive"},
		{`ALTER TABLE public.x SET SCHEMA arch`, "write archive"},
		{`SELECT * FROM x`, "none plain"},
	})
}

func TestConfigErrorsNameTheCulprit(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want []string
	}{
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{"my-table"}}}}, []string{"billing", "my-table", "double quotes"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{""}}}}, []string{"billing", `""`}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{"a.b.c"}}}}, []string{"billing", "a.b.c"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{"*"}}}}, []string{"billing", "*"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{"a."}}}}, []string{"billing", "a."}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{".a"}}}}, []string{"billing", ".a"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{"a.*b"}}}}, []string{"billing", "a.*b"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{`"a`}}}}, []string{"billing", `"a`}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{`""`}}}}, []string{"billing"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{"1a"}}}}, []string{"billing", "1a"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{"a\x00b"}}}}, []string{"billing"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{"\xff"}}}}, []string{"billing"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: []string{"fence.mark"}}}}, []string{"billing", "fence.mark"}},
		{Config{Fences: []Fence{{Name: "billing", Tables: nil}, {Name: "billing", Tables: nil}}}, []string{"billing", "twice"}},
		{Config{Fences: []Fence{{Name: "", Tables: nil}}}, []string{"no name"}},
		{Config{HarmlessFunctions: []string{"a b"}}, []string{"a b"}},
		{Config{HarmlessFunctions: []string{"a.*"}}, []string{"a.*"}},
	} {
		_, err := New(tt.cfg)
		if err == nil {
			t.Errorf("%+v: no error", tt.cfg)
			continue
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), strings.Trim(strings.ReplaceAll(w, `"`, ``), " ")) && !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: %v does not say %s", tt.cfg, err, w)
			}
		}
	}
}

func TestFenceSet(t *testing.T) {
	a, b := newFenceSet(1, 70), newFenceSet(3)
	u := b.Union(a)
	if u.Len() != 3 || !u.Has(1) || !u.Has(3) || !u.Has(70) || u.Has(2) || u.Has(-1) || u.Has(700) || b.Len() != 1 || a.Len() != 2 {
		t.Errorf("union %v of %v and %v", u, a, b)
	}
	if !u.Equal(a.Union(b)) || u.Equal(a) || !(FenceSet{}).Equal(FenceSet{[]uint64{0, 0}}) || !(FenceSet{[]uint64{0}}).Empty() {
		t.Error("equal")
	}
	var got []int
	for i := range u.All() {
		got = append(got, i)
		if i == 3 {
			break
		}
	}
	if len(got) != 2 || got[1] != 3 {
		t.Errorf("all: %v", got)
	}
	if n := testing.AllocsPerRun(10, func() { u.Union(a); a.Union(u); u.Union(FenceSet{}) }); n != 0 {
		t.Errorf("union of subsets allocates %v", n)
	}
}
