package rewrite

import "strings"

// lexicalCorpus holds the places where lexers go wrong.
var lexicalCorpus = []string{
	`SELECT 'a''b', E'a\'b', E'\\', E'a''b\n', B'01', X'1f', N'x', n 'x', U&'\0061', U&'d!0061' UESCAPE '!', "a""b", U&"\0061" FROM t`,
	"SELECT 'a'\n'b', 'a' \t\r\n  'b', E'a'\n'\\'', b'1'\n'0', U&'a'\n'b'", "SELECT 'a' 'b'", "SELECT 'a'/* x\n */'b'", "SELECT b'1''0', b''''",
	"SELECT $$a$$, $a$ $$ $b$ $a$, $a$$b$a$ $a$, a$b$, $1, $22", `SELECT 1 AS a$b$; SELECT 2 AS c$b$`, "SELECT $ä$x$ä$",
	"SELECT 1 /* a /* b */ ; DELETE FROM victim */ + 1", "SELECT 1 -- x\n+ 2 --", "SELECT 1 /**/ /***/ /*/*/*/**/*/*/", "SELECT 1+/*x*/2, 1--x\n+1, 3*/*x*/4",
	"SELECT 1.5, .5, 5., 1e5, 1.e+5, 1E-5, 0x1F, 0o17, 0b11, 1_000, 1_0.0_1e1_0, 2147483647, 2147483648, 0x7fffffffff", "SELECT a[1:2], a[:], a[1..2], x.y.z.*",
	"SELECT @-1, 1 <-> 2, 1 <= 2, 3 <>-4, 5 !=-1, 6*-7, 8 - -9, 1 #- 2, 1 ?| 2, a -> 'b' ->> 'c', 1 ||/ 2, |/ 25, ~1, a @> b",
	"SELECT 1::int, CAST(1 AS int), f(a := 1), f(a => 1)", "SELECT\v1\f,\u00a02", "\ufeffSELECT 1", "SELECT é, É, ÿ FROM übung", "SELECT 1;;;SELECT 2;",
	"SELECT u&\"a\", U &\"a\", e 'x', x'0', X'g', b'2', N'a'\n'b', nn'x'", `SELECT E'\x41\101\u0041\U00000041'`, `SELECT E'\u12', 'x'`, `SELECT U&'\00'`,
	"SELECT a FROM t WHERE b = $1 AND c LIKE '%;%' -- ;\n; DELETE FROM t", "SELECT \"\"", "SELECT '", "SELECT \"", "SELECT /*", "SELECT $a$", "SELECT E'\\", "SELECT 1a, 0x, 0b2, 1__0, 1e, 1e+, $1a",
	"SELECT {1}", "SELECT a\\b", "SELECT 1 \x01", "SELECT #", "SELECT " + strings.Repeat("+*", 40), "SELECT " + strings.Repeat("<", 64), "SELECT 1 !", "SELECT 1 +- 2, 1 @+- 2, 1 <+ 2", "SELECT :x, :=, ::", "a..b", "1...5", ".", "''", "U&''",
	"SELECT a FROM t WHERE a IN (" + numbers(20) + ") OR a = ANY (ARRAY[" + numbers(18) + ", -7, 'x'::text])",
	"SELECT 'a' -- c\n 'b'", "SELECT 'a' --\n, 'b'", "SELECT 'a'\n-- x\n'b'", "SELECT 'a'\n--", "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'b')", "VALUES (1), ('a'), (2)",
}

// corpus is every text of the tables.
func corpus() []string {
	all := append([]string{}, lexicalCorpus...)
	for _, tests := range [][]tableTest{queryTests, sessionTests, schemaTests} {
		for _, tt := range tests {
			all = append(all, tt.sql)
		}
	}
	return all
}

// mutations are cut into the texts of the corpus.
var fragments = []string{"'", "\"", "$$", "$a$", "/*", "*/", "--", "\n", ";", "(", ")", "E'", "\\", "U&\"", "U&'", " uescape '!'", " INSERT INTO accounts VALUES (1)",
	";DELETE FROM app.jobs;", " WHERE ", " RETURNING x", " FROM ", " SET ", ".where", " AS ", "::int", " CASE ", " END ", ",", "1", "e", "$1", "+", "-", "::", ":",
	".", "..", "\t", "]", "[", "b'", "x'", "n'", "&", "?", "@-", "+-", "*/*", "--\n'", " values (1,'a'),(2,'b'),(3,'c') ", " set_config('fence.token','1',false) ",
	"'fence.token'", "2147483648", " union select 1,2 ", " explain (analyze off) ", "0x1", "1_0", " f(1) ", numbers(17), ", 7, 8, 9", "(" + numbers(18) + ")", "'x'::text", "ä", "\xff", " NULL", "(('a'))"}
