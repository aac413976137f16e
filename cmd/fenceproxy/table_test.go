package main

import (
	"strings"
	"testing"
)

func TestTableLooksLikePsql(t *testing.T) {
	tb := table{heads: []string{"fence", "token", "holder"}, right: []bool{false, true}}
	tb.add("billing", "34", "worker größer")
	tb.add("jobs/42", "1.7", "")
	var got strings.Builder
	if err := tb.write(&got); err != nil {
		t.Fatal(err)
	}
	want := `  fence  | token |    holder
---------+-------+---------------
 billing |    34 | worker größer
 jobs/42 |   1.7 |
(2 rows)
`
	if got.String() != want {
		t.Errorf("got:\n%swant:\n%s", got.String(), want)
	}
}
