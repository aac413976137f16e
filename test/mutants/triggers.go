package main

// Packages of the database's side.
const (
	triggers = "tokens/triggers"
	catalog  = "tokens/catalog"
)

func init() { mutants = append(mutants, triggerMutants...) }

// triggerMutants are the safeguards of the triggers on fenced tables, and of what is known of the catalog.
var triggerMutants = []mutant{
	{
		name: "triggers: TRUNCATE under rewrite",
		file: "tokens/schema/016_truncate.sql",
		old:  "  PERFORM fence.guard_or_pass_by(TG_ARGV[1:], TG_ARGV[0]);\n",
		pkg:  "tokens/triggers", tests: "TestRowTokensRewrite",
	},
	{
		name: "trigger: a row's own column tells whose it is",
		file: "tokens/triggers/plan.go",
		old:  "rowToken(t.RowToken, t.ScopeColumn)",
		new:  "rowToken(t.RowToken, \"\")",
		pkg:  "tokens/triggers", tests: "TestI1RowTokensOfAScope",
	},
	{
		name: "trigger: a row moves to another fence with that one's token",
		file: "tokens/triggers/rowscope.go",
		old:  "  token := fence.row_new(moved_to);\n",
		new:  "  token := COALESCE(token, fence.row_new(moved_to));\n",
		pkg:  "tokens/triggers", tests: "TestI1RowTokensOfAScope",
	},
	{
		name: "trigger: a cascade leaves no newer row alone",
		file: "tokens/triggers/rowtoken.go",
		old:  " AND pg_catalog.pg_trigger_depth() OPERATOR(pg_catalog.=) 1`",
		new:  "`",
		pkg:  triggers, tests: "TestI1CascadesMeetNewerRows",
	},
	{
		name: "trigger: the lock",
		file: "tokens/schema/*.sql",
		old:  "  IF pg_catalog.pg_advisory_xact_lock_shared(1178947139, mark_id) IS NOT NULL THEN -- strict",
		new:  "  IF mark_id IS NOT NULL THEN -- strict",
		pkg:  triggers, tests: "TestRaiseWaitsForGuardedWrite",
	},
	{
		name: "trigger: the xmax rule",
		file: "tokens/schema/*.sql",
		old:  "        AND (m.xmax OPERATOR(pg_catalog.=) '0'::pg_catalog.xid\n          OR pg_catalog",
		new:  "        AND (true\n          OR pg_catalog",
		pkg:  triggers, tests: "TestSnapshotOlderThanTheRaise",
	},
	{
		name: "trigger: the token is the mark",
		file: "tokens/schema/*.sql",
		old:  "        AND CASE WHEN raw OPERATOR(pg_catalog.=) t.item THEN bare OPERATOR(pg_catalog.=) f\n",
		new:  "        AND CASE WHEN raw OPERATOR(pg_catalog.<=) t.item THEN bare OPERATOR(pg_catalog.=) f\n",
		pkg:  triggers, tests: "TestEveryWayToAFencedTable",
	},
	{
		name: "trigger: the mark's timeline is the server's",
		file: "tokens/schema/*.sql",
		old:  "        AND (m.timeline IS NULL OR m.timeline OPERATOR(pg_catalog.=)\n",
		new:  "        AND (true OR m.timeline OPERATOR(pg_catalog.=)\n",
		pkg:  triggers, tests: "TestTokensOfOtherForms",
	},
	{
		name: "trigger: operators by their schema",
		file: "tokens/schema/*.sql",
		old:  "CASE WHEN raw OPERATOR(pg_catalog.=) t.item THEN bare",
		new:  "CASE WHEN raw = t.item THEN bare",
		pkg:  triggers, tests: "TestSearchPathAttack",
	},
	{
		name: "trigger: only a role that is allowed bypasses",
		file: "tokens/schema/*.sql",
		old:  "  IF NOT EXISTS (SELECT FROM fence.bypass b WHERE b.role = session_user) THEN",
		new:  "  IF false THEN",
		pkg:  triggers, tests: "TestBypass",
	},
	{
		name: "trigger: a bypass is written down",
		file: "tokens/schema/*.sql",
		old:  "    INSERT INTO fence.bypassed (fence, started, application, reason)\n      VALUES (f, began, left(current_setting('application_name'), 100), reason);\n",
		pkg:  triggers, tests: "TestBypass",
	},
	{
		name: "trigger: on TRUNCATE",
		file: "tokens/triggers/trigger.go",
		old:  "	return t | typeTruncate\n",
		new:  "	return t\n",
		pkg:  triggers, tests: "TestEveryWayToAFencedTable",
	},
	{
		name: "trigger: on partitions and children",
		file: "tokens/catalog/members.go",
		old:  "		for _, child := range t.below[m.All[i].OID] {\n",
		new:  "		for _, child := range t.below[0] {\n",
		pkg:  triggers, tests: "TestEveryWayToAFencedTable",
	},
	{
		name: "trigger: on each row below a table that is not fenced",
		file: "tokens/catalog/members.go",
		old:  "				m.All[i].Exposed = true\n",
		pkg:  triggers, tests: "TestFencedBelowAnUnfencedParent",
	},
	{
		name: "trigger: all in one transaction",
		file: "tokens/triggers/install.go",
		old:  "		if _, err := tx.Exec(ctx, s.SQL); err != nil {\n",
		new:  "		if _, err := conn.Exec(ctx, s.SQL+\"; COMMIT; BEGIN\"); err != nil {\n",
		pkg:  triggers, tests: "TestInstallIsOneTransaction",
	},
	{
		name: "trigger: a replaced one is seen",
		file: "tokens/triggers/states.go",
		old:  "	case t.function != f.function || t.narrowed ||",
		new:  "	case false ||",
		pkg:  triggers, tests: "TestReplacedTriggerIsShown",
	},
	{
		name: "catalog: what leads to a fence leads on",
		file: "tokens/catalog/graph.go",
		old:  "	for changed := true; changed; {\n		changed = false\n",
		new:  "	for changed := true; changed; {\n		changed = len(via) == 0\n		if !changed && len(via) > 0 {\n			break\n		}\n		changed = false\n",
		pkg:  catalog, tests: "TestWhatLeadsToAFence",
	},
}
