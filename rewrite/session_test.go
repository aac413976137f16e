package rewrite

import (
	"strings"
	"testing"
)

var sessionTests = []tableTest{
	{`BEGIN`, "[begin] none"},
	{`START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY`, "[begin] none"},
	{`COMMIT`, "[commit] none"},
	{`END WORK`, "[commit] none"},
	{`COMMIT AND CHAIN`, "[commit and chain] none"},
	{`COMMIT AND NO CHAIN`, "[commit] none"},
	{`ROLLBACK`, "[rollback] none"},
	{`ABORT`, "[rollback] none"},
	{`ROLLBACK AND CHAIN`, "[rollback and chain] none"},
	{`SAVEPOINT "A b"`, "[savepoint] none name=A b"},
	{`ROLLBACK TO A`, "[rollback to savepoint] none name=a"},
	{`ROLLBACK WORK TO SAVEPOINT a`, "[rollback to savepoint] none name=a"},
	{`RELEASE a`, "[release savepoint] none name=a"},
	{`PREPARE TRANSACTION 'x'`, "[prepare transaction] none"},
	{`COMMIT PREPARED 'x'`, "[commit prepared] none"},
	{`ROLLBACK PREPARED 'x'`, "[rollback prepared] none"},
	{`BEGIN; UPDATE accounts SET a = 1; COMMIT`, "[begin] none; write billing; [commit] none"},
	{`SET TRANSACTION READ WRITE`, "[set] none plain"},
	{`SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY`, "[set] none plain"},
	{`SET CONSTRAINTS ALL DEFERRED`, "none plain"},
	{`SET CONSTRAINTS ALL IMMEDIATE`, "opaque"},

	// the token
	{`SET fence.token = '34'`, `[set token] none token="34"`},
	{`SET fence.token TO 34`, `[set token] none token="34"`},
	{`SET SESSION fence.token = 1.34`, `[set token] none token="1.34"`},
	{`SET LOCAL fence.token = 'billing=34,jobs/42=35'`, `[set token] none token="billing=34,jobs/42=35" local`},
	{`SET "fence"."token" = '34'`, `[set token] none token="34"`},
	{`SET "fence.token" = '34'`, `[set token] none token="34"`},
	{`SET "FENCE".Token = '34'`, `[set token] none token="34"`},
	{`SET U&"fence\002etoken" = '34'`, `[set token] none token="34"`},
	{`SET fence.token = -5`, `[set token] none token="-5"`},
	{`SET fence.token = 9223372036854775807`, `[set token] none token="9223372036854775807"`},
	{`SET fence.token = ''`, `[set token] none token=""`},
	{`SET fence.token = on`, `[set token] none token="on"`},
	{`SET fence.token = E'3\u0034'`, `[set token] none token="34"`},
	{`SET fence.token = $$7$$`, `[set token] none token="7"`},
	{`SET fence.token = ''; SELECT ''`, `[set token] none token=""; none`},
	{`SELECT set_config('fence.token', '', false)`, `[set token] none token=""`},
	{`SET fence.token = $$34$$`, `[set token] none token="34"`},
	{`SET fence.token = 'a', 'b'`, "[set] none may-change-token"}, // the server refuses it
	{`SET fence.token FROM CURRENT`, "[set] none may-change-token"},
	{`SET fence.token TO DEFAULT`, "[reset token] none"},
	{`RESET fence.token`, "[reset token] none"},
	{`RESET ALL`, "[reset token] none changes-lexing"},
	{`SHOW fence.token`, "[set] none plain"},
	{`SET fence.tokens = '34'`, "[set] none plain"},
	{`SELECT set_config('fence.token', '34', false)`, `[set token] none token="34"`},
	{`SELECT pg_catalog.set_config('Fence.Token', '34', true) AS x`, `[set token] none token="34" local`},
	{`SELECT set_config('fence.token', $1, true)`, `[set token] none token=$1 local`},
	{`SELECT set_config('fence.token'::text, '34'::varchar, true)`, `[set token] none token="34" local`},
	{`SELECT set_config(('fence.token'), '34', true)`, `[set token] none token="34" local`},
	{`SELECT set_config(CAST('fence.token' AS text), '34', true)`, `[set token] none token="34" local`},
	{`SELECT set_config(text 'fence.token', '34', true)`, `[set token] none token="34" local`},
	{`SELECT U&"set\005fconfig"('fence.token', '34', true)`, `[set token] none token="34" local`},
	{`SELECT set_config('fence.token', NULL, true)`, "[reset token] none"},
	{`SELECT set_config('fence.token', '34'::varchar(1), true)`, "none may-change-token"},
	{`SELECT set_config('fence.token', '34', $1)`, "none may-change-token"},
	{`SELECT set_config('fence.token', $1::text, false)`, "none may-change-token"}, // Bind may hold an int8
	{`SELECT set_config('fence.token', '34', 't')`, "none may-change-token"},
	{`SELECT set_config('fence.token', '34', true), 1`, "none may-change-token"},
	{`SELECT set_config('fence.token', '34', true) FROM t`, "none may-change-token"},
	{`SELECT set_config('fence.token', '34', true) WHERE false`, "none may-change-token"},
	{`SELECT set_config('fence.token', '34', true) LIMIT 0`, "none may-change-token"},
	{`SELECT set_config('fence.' || 'token', '34', true)`, "none may-change-token changes-lexing"},
	{`SELECT set_config($1, '34', true)`, "none may-change-token changes-lexing"},
	{`SELECT set_config(is_local => true, setting_name => 'fence.token', new_value => '1')`, "none may-change-token changes-lexing"},
	{`SELECT set_config(name, '34', true) FROM t`, "none may-change-token changes-lexing"},
	{`VALUES (set_config('fence.token', '34', true))`, "none may-change-token"},
	{`INSERT INTO t VALUES (set_config('fence.token', '34', true))`, "write may-change-token"},
	{`SELECT set_config('app.user', '7', true)`, "[set] none plain"},
	{`SELECT set_config('app.user', '7', true), set_config('app.role', '8', true)`, "none plain"},
	{`SELECT set_config('app.user', '7', true), set_config('fence.token', '8', true)`, "none may-change-token"},
	{`SELECT set_config('app.user', f(), true)`, "opaque"},
	{`SELECT current_setting('fence.token', true)`, "none plain"},
	{`ALTER ROLE r SET fence.token = '34'`, "write may-change-token"},
	{`ALTER DATABASE d SET "fence.token" = '34'`, "write may-change-token"},
	{`ALTER SYSTEM SET fence.token = '34'`, "[refuses a transaction block] write may-change-token"},
	{`ALTER ROLE r SET work_mem = '1MB'`, "write plain"},

	// what changes how the next text is read
	{`SET standard_conforming_strings = off`, "[set] none changes-lexing"},
	{`SET NAMES 'SJIS'`, "[set] none changes-lexing"},
	{`SET client_encoding TO 'UTF8'`, "[set] none changes-lexing"},
	{`RESET Client_Encoding`, "[set] none changes-lexing"},
	{`SELECT set_config('client_encoding', 'SJIS', false)`, "[set] none changes-lexing"},
	{`SET standard_conforming_strings = off; SELECT 'a\', 'b; DELETE FROM accounts; --'`, "[set] none changes-lexing; none"},
	{`SET search_path = x`, "[set] none plain"},
	{`SET SESSION AUTHORIZATION x`, "[set] none plain"},
	{`SET ROLE x`, "[set] none plain"},
	{`SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE`, "[set] none plain"},

	{`DISCARD ALL`, "[discard all] none changes-lexing"},
	{`DISCARD PLANS`, "none plain"},
	{`LISTEN a`, "none plain"},
	{`NOTIFY a, 'b'`, "none plain"},
	{`CHECKPOINT`, "none plain"},
	{`LOAD 'x'`, "opaque"},

	// prepared statements and cursors
	{`PREPARE P AS UPDATE accounts SET a = $1`, "[prepare] write billing name=p"},
	{`PREPARE p(int) AS SELECT f($1)`, "[prepare] opaque name=p"},
	{`PREPARE p AS SELECT 1`, "[prepare] none name=p"},
	{`PREPARE p AS SELECT set_config('fence.token', $1, false)`, "[prepare] none name=p may-change-token"},
	{`EXECUTE p`, "[execute] none name=p"},
	{`EXECUTE "P"(1, lower('x'))`, "[execute] none name=P"},
	{`EXECUTE p(f(1))`, "[execute] opaque name=p"},
	{`DEALLOCATE p`, "[deallocate] none name=p"},
	{`DEALLOCATE PREPARE ALL`, "[deallocate] none"},
	{`DECLARE c CURSOR FOR SELECT * FROM accounts`, "[declare cursor] none name=c"},
	{`DECLARE c CURSOR WITH HOLD FOR SELECT f(1)`, "[declare cursor] opaque name=c"},
	{`DECLARE c CURSOR FOR SELECT * FROM accounts FOR UPDATE`, "[declare cursor] lock name=c"},
	{`FETCH 5 FROM c`, "[fetch] none name=c"},
	{`MOVE ALL IN "C"`, "[fetch] none name=C"},
	{`CLOSE c`, "none plain"},
}

func TestSessionStatementsAreJudged(t *testing.T) { runTable(t, fencesByName, sessionTests) }

// A token list longer than what the parser is usually given must not be cut short.
func TestLongTokenValueIsWhole(t *testing.T) {
	value := strings.Repeat("fence=1,", 100) + "last=2"
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for _, sql := range []string{"SET fence.token = '" + value + "'", "SELECT set_config('fence.token', E'" + value + "', false)"} {
		for range 2 {
			if st := a.Analyze(&sc, []byte(sql), Settings{}).Statements[0]; st.Token == nil || st.Token.Value != value {
				t.Errorf("%s: %+v", sql, st.Token)
			}
		}
	}
}
