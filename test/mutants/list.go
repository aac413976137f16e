package main

// Where the tests are.
const (
	talk = "test/conversation"
	e2e  = "test/e2e"

	differential = "TestProxyRepliesAsPostgreSQLExceptForStaleWrites"
)

// The list of safeguards, each taken away in turn. "fast" and so on are the forms of the guard.
var mutants = []mutant{
	{
		name: "guard, extended protocol",
		file: "wire/relay/client.go",
		old:  "		e.guardExecute(&d)\n",
		pkg:  talk, tests: differential + "/(extended|copy)",
	},
	{
		name: "guard, simple protocol",
		file: "wire/relay/query.go",
		old:  "			if !d.none() {\n				e.tx.touchedNow = true",
		new:  "			if a.Plan == nil {\n				e.tx.touchedNow = true",
		pkg:  talk, tests: differential + "/simple",
	},
	{
		name: "lock in the guard, fast, extended protocol",
		file: "tokens/guard.go",
		old:  "SELECT pg_catalog.pg_advisory_xact_lock_shared(1178947139, $1::pg_catalog.int4)",
		new:  "SELECT $1::pg_catalog.int4",
		pkg:  e2e, tests: "TestRaiseWaitsForEveryFormOfGuard/one_fence_extended",
	},
	{
		name: "lock in the guard, fast, simple protocol",
		file: "tokens/schema/*.sql",
		old:  "IF pg_catalog.pg_advisory_xact_lock_shared(1178947139, id) IS NOT NULL THEN",
		new:  "IF true THEN",
		pkg:  e2e, tests: "TestRaiseWaitsForEveryFormOfGuard/one_fence_simple",
	},
	{
		name: "lock in the guard, slow and session",
		file: "tokens/schema/*.sql",
		old:  "  PERFORM pg_advisory_xact_lock_shared(1178947139, mark_id);\n",
		pkg:  e2e, tests: "TestRaiseWaitsForEveryFormOfGuard/(several|all)",
	},
	{
		name: "guard reads in the statement after the lock",
		file: "wire/relay/guard.go",
		old:  "	b = wire.AppendExecute(b, portal)\n	b = wire.AppendClose(b, wire.TargetPortal, portal)\n	b = wire.AppendBind(b, portal, e.reserved.name(reservedRead)",
		new:  "	b = wire.AppendClose(b, wire.TargetPortal, portal)\n	b = wire.AppendBind(b, portal, e.reserved.name(reservedLock), id)\n	b = wire.AppendClose(b, wire.TargetPortal, portal)\n	b = wire.AppendBind(b, portal, e.reserved.name(reservedRead)",
		pkg:  talk, tests: differential + "/extended",
	},
	{
		name: "xmax rule, fast, extended protocol",
		file: "tokens/guard.go",
		old:  "(m.xmax OPERATOR(pg_catalog.=) '0'::pg_catalog.xid OR ",
		new:  "(true OR ",
		pkg:  talk, tests: differential + "/extended/A20",
	},
	{
		name: "xmax rule, fast, simple protocol",
		file: "tokens/schema/*.sql",
		old:  "(m.xmax OPERATOR(pg_catalog.=) '0'::pg_catalog.xid\n",
		new:  "(true\n",
		pkg:  talk, tests: differential + "/simple/B18",
	},
	{
		name: "xmax rule, slow",
		file: "tokens/schema/*.sql",
		old:  "IF m.touched AND current_setting('transaction_isolation')",
		new:  "IF false AND current_setting('transaction_isolation')",
		pkg:  talk, tests: differential + "/simple/B18",
	},
	{
		name: "raise outside of the application's transaction: the guard raises instead of the announcement",
		file: "tokens/announcer.go",
		old:  "	if s.InRecovery || len(l) == 0 {\n		return nil, nil",
		new:  "	if s.InRecovery || len(l) >= 0 {\n		return nil, nil",
		and: []edit{{"tokens/schema/*.sql",
			"  PERFORM pg_advisory_xact_lock_shared(1178947139, mark_id);\n",
			"  PERFORM fence.raise(f, e, c, NULL, NULL);\n  PERFORM pg_advisory_xact_lock_shared(1178947139, mark_id);\n"}},
		pkg: e2e, tests: "TestRaiseWaitsForGuardedTransactions",
	},
	{
		name: "guard again after ROLLBACK TO",
		file: "wire/relay/sent.go",
		old:  "		rewrite.KindRollbackTo, rewrite.KindPrepareTx,",
		new:  "		rewrite.KindPrepareTx,",
		pkg:  talk, tests: differential + "/extended/A8",
	},
	{
		name: "guard again after COMMIT AND CHAIN",
		file: "wire/relay/sent.go",
		old:  "rewrite.KindCommit, rewrite.KindCommitChain, rewrite.KindRollback,",
		new:  "rewrite.KindCommit, rewrite.KindRollback,",
		pkg:  talk, tests: differential + "/extended/A9",
	},
	{
		name: "guard again in doubt: a transaction that may be another one",
		file: "wire/relay/engine.go",
		old:  "if !e.tx.block || h.epoch != e.tx.epoch || h.serial != e.token.serial {",
		new:  "if h.serial != e.token.serial {",
		pkg:  talk, tests: differential + "/(extended|simple|held)",
	},
	{
		name: "guard again in doubt: a token that may be another one",
		file: "wire/relay/engine.go",
		old:  "if !e.tx.block || h.epoch != e.tx.epoch || h.serial != e.token.serial {",
		new:  "if !e.tx.block || h.epoch != e.tx.epoch {",
		pkg:  talk, tests: differential + "/announce/C15",
	},
	{
		name: "effects on the reply: a Parse counts as soon as it is read",
		file: "wire/relay/verdict.go",
		old:  "	} else if last := n.pending[k-1]; last.segment == segment {",
		new:  "	} else if last := n.pending[k-1]; true {",
		pkg:  talk, tests: differential + "/(bypass|adversity)/(redteam|X4s)",
	},
	{
		name: "effects on the reply: what the server skipped counts",
		file: "wire/relay/settle.go",
		old:  "		s.statement.settle(false)\n",
		new:  "		s.statement.settle(true)\n",
		and:  []edit{{"wire/relay/settle.go", "		s.portal.settle(false)\n", "		s.portal.settle(true)\n"}},
		pkg:  talk, tests: differential + "/bypass/redteam",
	},
	{
		name: "equality passes, guard",
		file: "tokens/schema/*.sql",
		old:  "IF (e, c) < (m.epoch, m.token) THEN",
		new:  "IF (e, c) <= (m.epoch, m.token) THEN",
		pkg:  e2e, tests: "TestEveryWriteFormInEveryTokenState/fresh",
	},
	{
		name: "equality passes, raise: the current token does not wait",
		file: "tokens/schema/*.sql",
		old:  "IF (new_epoch, new_token) = (m.epoch, m.token) THEN",
		new:  "IF locked AND (new_epoch, new_token) = (m.epoch, m.token) THEN",
		pkg:  e2e, tests: "TestPresentingTheCurrentTokenNeverWaits",
	},
	{
		name: "opaque is guarded",
		file: "wire/relay/guard.go",
		old:  "	case rewrite.EffectOpaque:\n		d.session = d.session || e.opaqueGuarded(st)\n		fallthrough",
		new:  "	case rewrite.EffectOpaque:\n		fallthrough",
		pkg:  talk, tests: differential + "/bypass/a_function",
	},
	{
		name: "unknown is guarded",
		file: "wire/relay/guard.go",
		old:  "		d.fences = e.cfg.Analyzer.All()\n",
		pkg:  e2e, tests: "TestUnreadableTextIsGuarded",
	},
	{
		name: "durable raise",
		file: "tokens/schema/*.sql",
		old:  "  PERFORM set_config('synchronous_commit', 'on', true)\n    WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');\n  LOOP\n",
		new:  "  LOOP\n",
		and: []edit{{"tokens/schema/*.sql",
			"    PERFORM set_config('synchronous_commit', 'on', true);\n",
			"    NULL;\n"}},
		pkg: e2e, tests: "TestRaiseSurvivesKillOfPostgreSQL",
	},
	{
		name: "marks never go down",
		file: "tokens/schema/*.sql",
		old:  "IF (new_epoch, new_token) < (m.epoch, m.token) THEN",
		new:  "IF false THEN",
		and:  []edit{{"tokens/schema/*.sql", "IF (NEW.epoch, NEW.token) < (OLD.epoch, OLD.token) THEN", "IF false THEN"}},
		pkg:  e2e, tests: "TestStaleTokenIsRefusedByAProxyWithoutMemory",
	},
	{
		name: "the guard's statements are prepared anew after something opaque",
		file: "wire/relay/sent.go",
		old:  "having read them in pg_prepared_statements.\n		e.reserved.lose()\n",
		new:  "having read them in pg_prepared_statements.\n",
		pkg:  talk, tests: differential + "/adversity/X5b",
	},
	{
		name: "only backends that hold the fence are ended",
		file: "tokens/schema/*.sql",
		old:  "AND l.objid = m.id::oid AND l.objsubid = 2\n    WHERE m.name = fence_name",
		new:  "AND l.objsubid = 2\n    WHERE m.name = fence_name",
		pkg:  e2e, tests: "TestCollidingNamesAreTwoFences",
	},
	{
		name: "a control connection to another server vouches for nothing",
		file: "tokens/conns.go",
		old:  "if s.SystemID != \"\" && s.SystemID != c.systemID {",
		new:  "if false {",
		pkg:  e2e, tests: "TestControlConnectionToAnotherServerIsNoticed",
	},
}
