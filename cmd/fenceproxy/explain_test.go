package main

import (
	"bytes"
	"context"
	"os"
	"testing"
)

func TestExplain(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		in   string
		want string
	}{
		{"writes, reads and transactions", []string{"--fence=billing=invoices", "BEGIN; UPDATE invoices SET paid = true;\n  SELECT 1; COMMIT"}, "", `
  at  | statement |  kind  | effect | fences  |           action
------+-----------+--------+--------+---------+-----------------------------
 1:1  | BEGIN     | begin  | none   |         | forward
 1:8  | UPDATE    | other  | write  | billing | guard billing, then forward
 2:3  | SELECT    | other  | none   |         | forward
 2:13 | COMMIT    | commit | none   |         | forward
(4 rows)

in front of 1:8:
  SELECT fence.guard(ARRAY['billing'],'billing');
`},
		{"opaque, from standard input", []string{"--fence=billing=invoices", "--opaque=reject"}, "SELECT f(1)", `
 at  | statement | kind  | effect | fences |                                         action
-----+-----------+-------+--------+--------+----------------------------------------------------------------------------------------
 1:1 | SELECT    | other | opaque |        | with a token: guard the session's fences, then forward; without one: refuse with ZF002
(1 row)

in front of 1:1:
  SELECT fence.guard_session('billing',false);
`},
		{"call refused", []string{"--fence=billing=invoices", "--opaque-call=reject", "CALL p()"}, "", `
 at  | statement | kind | effect | fences |                 action
-----+-----------+------+--------+--------+-----------------------------------------
 1:1 | CALL      | call | opaque |        | refuse with ZF004 (opaque_call: reject)
(1 row)
`},
		{"observe injects nothing", []string{"--fence=billing=invoices", "--mode=observe", "DELETE FROM invoices"}, "", `
 at  | statement | kind  | effect | fences  |                               action
-----+-----------+-------+--------+---------+--------------------------------------------------------------------
 1:1 | DELETE    | other | write  | billing | forward (mode observe); enforce would: guard billing, then forward
(1 row)
`},
		{"what cannot be read is parsed by PostgreSQL, then guarded", []string{"--fence=a=t", "--fence=b=u", "UPDATE t SET"}, "", `
The text cannot be read (not in the grammar of PostgreSQL 17). PostgreSQL is asked to parse it first, which
executes nothing: its error goes to the client. What it can parse is taken for a write to every fence.

 at  | statement | kind  | effect  | fences |                                  action
-----+-----------+-------+---------+--------+---------------------------------------------------------------------------
 1:1 | UNKNOWN   | other | unknown | a, b   | let PostgreSQL parse it first; if it can, guard every fence, then forward
(1 row)

in front of 1:1:
  SELECT fence.guard(ARRAY['a','b'],'');
`},
		{"JSON", []string{"--json", "--fence=a=t", "TRUNCATE t"}, "", `
{
  "statements": [
    {
      "line": 1,
      "column": 1,
      "verb": "TRUNCATE",
      "kind": "other",
      "effect": "write",
      "fences": [
        "a"
      ],
      "action": "guard a, then forward",
      "injected": "SELECT fence.guard(ARRAY['a'],'a')"
    }
  ]
}
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fenceproxyWith(t, tc.in, append([]string{"explain"}, tc.args...)...).want(t, exitOK, tc.want, "")
		})
	}
}

// Without a statement there is nothing to explain, and no empty table that looks like an answer.
func TestExplainWithoutSQL(t *testing.T) {
	for _, in := range []string{"", "  ; -- nothing\n"} {
		fenceproxyWith(t, in, "explain", "--fence=a=t").want(t, exitUsage, "",
			"fenceproxy: no SQL: there is no statement in the text\nsee fenceproxy explain --help\n")
	}
	null, err := os.Open(os.DevNull) // a device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var out, errs bytes.Buffer
	code := run(context.Background(), []string{"explain", "--fence=a=t"}, streams{null, &out, &errs})
	outcome{out.String(), errs.String(), code}.want(t, exitUsage, "",
		"fenceproxy: no SQL: give it as an argument, or on standard input\nsee fenceproxy explain --help\n")
}
