package main

func init() { mutants = append(mutants, tokenlessMutants...) }

// tokenlessMutants are the safeguards of sessions that may not write without a token.
var tokenlessMutants = []mutant{
	{
		name: "tokenless: the guard makes the transaction read-only",
		file: "tokens/guard.go",
		old:  "pg_catalog.set_config('transaction_read_only', 'on', true)",
		new:  "'on'",
		pkg:  e2e, tests: "TestTokenlessOpaqueReadOnly",
	},
	{
		name: "tokenless: blanks are no token",
		file: "tokens/guard.go",
		old:  "OPERATOR(pg_catalog.~) '[0-9]'",
		new:  "OPERATOR(pg_catalog.<>) ''",
		pkg:  e2e, tests: "TestTokenlessReadOnlyCannotBeLifted",
	},
	{
		name: "tokenless: text is no proof",
		file: "wire/relay/tokenless.go",
		old:  "	return e.cfg.Tokenless == TokenlessReadOnly && e.enforcing() && !e.knownToken()\n",
		new:  "	return false\n",
		pkg:  e2e, tests: "TestTokenlessReadOnly$",
	},
	{
		name: "tokenless: a Bind may run code",
		file: "wire/relay/extended.go",
		old:  "	e.readOnlyBeforeBind(v)\n",
		pkg:  e2e, tests: "TestTokenlessReadOnlyAtBind",
	},
	{
		name: "tokenless: RELEASE SAVEPOINT ends it",
		file: "wire/relay/sent.go",
		old:  "		if e.cfg.Tokenless != TokenlessReadWrite {\n",
		new:  "		if false {\n",
		pkg:  relay, tests: "TestTokenless",
	},
	{
		name: "tokenless: PostgreSQL does not check RESET",
		file: "wire/relay/tokenless.go",
		old:  "		d.readOnly, d.someToken = true, true\n",
		pkg:  e2e, tests: "TestTokenlessReadOnlyToTheEnd",
	},
	{
		name: "tokenless: NULL for a value is RESET",
		file: "rewrite/setconfig.go",
		old:  "		if _, isText := text(value); !isText {\n",
		new:  "		if false {\n",
		pkg:  e2e, tests: "TestTokenlessReadOnlyToTheEnd",
	},
	{
		name: "tokenless: COMMIT runs what was left behind a savepoint",
		file: "wire/relay/tokenless.go",
		old:  "		return e.tx.released\n",
		new:  "		return false\n",
		pkg:  relay, tests: "TestTokenlessGuards",
	},
	{
		name: "tokenless: another transaction needs another guard",
		file: "wire/relay/tokenless.go",
		old:  "	return s.sent && s.epoch == e.tx.epoch && s.serial == e.token.serial &&\n		(s.segment == e.segment || s.block && e.tx.block)\n",
		new:  "	return s.sent\n",
		pkg:  relay, tests: "TestTokenless",
	},
	{
		name: "tokenless: CALL and DO may commit behind a guard",
		file: "wire/relay/tokenless.go",
		old:  "		case call && extended && !e.tx.block:\n",
		new:  "		case false && call && extended:\n",
		pkg:  relay, tests: "TestTokenless",
	},
	{
		name: "tokenless: nothing stands in front of VACUUM",
		file: "wire/relay/tokenless.go",
		old:  "		case e.unguardable(st):\n",
		new:  "		case false:\n",
		pkg:  relay, tests: "TestTokenless",
	},
	{
		name: "tokenless: READ ONLY lets some things through",
		file: "wire/relay/tokenless.go",
		old:  "	d.someToken = d.someToken || st.PastReadOnly\n",
		pkg:  e2e, tests: "TestTokenlessNeedsSomeToken",
	},
	{
		name: "tokenless: a token that nobody announced is none",
		file: "wire/relay/tokenless.go",
		old:  "	return e.token.sure && len(",
		new:  "	return len(e.token.guess.raw) > 0 || e.token.sure && len(",
		pkg:  e2e, tests: "TestTokenlessTokenPresentedLater",
	},
	{
		name: "tokenless: the sidecar's readers only read",
		file: "wire/relay/retire.go",
		old:  "			c.Tokenless = TokenlessReadOnly\n",
		new:  "			_ = c.Tokenless\n",
		pkg:  relay, tests: "TestReadOnlyTenure",
	},
}
