package main

func init() { mutants = append(mutants, catalogMutants...) }

// catalogMutants are the safeguards of what a database's catalog tells.
var catalogMutants = []mutant{
	{
		name: "catalog: children and views are the fence's tables",
		file: "rewrite/names.go",
		old:  "		for _, names := range [][]Name{f.Found.Children, f.Found.Views} {",
		new:  "		for _, names := range [][]Name{} {",
		pkg:  e2e, tests: "TestI1Catalog",
	},
	{
		name: "catalog: a function may bear the name of the table that it writes",
		file: "tokens/catalog/graph.go",
		old:  "itself := n.function && word",
		new:  "itself := word",
		pkg:  "tokens/catalog", tests: "TestWhatLeadsToAFence",
	},
	{
		name: "catalog: defaults of arguments and aggregates call",
		file: "tokens/catalog/function.go",
		old:  "calls: f.uses, ",
		pkg:  "tokens/catalog", tests: "TestWhatLeadsToAFence",
	},
	{
		name: "catalog: a call of a function that writes is a write",
		file: "rewrite/found.go",
		old:  "		j.fence(s)\n",
		pkg:  texts, tests: "TestI1FoundNames",
	},
	{
		name: "catalog: what a declaration calls harmless is",
		file: "rewrite/functions.go",
		old:  "	if !j.a.functions[n] {\n		j.calls(n)\n",
		new:  "	if true {\n		j.calls(n)\n",
		pkg:  texts, tests: "TestI1FoundNames",
	},
	{
		name: "catalog: rows are not written through a view",
		file: "rewrite/rowwrite.go",
		old:  "		j.refuseRow(throughView)\n		return nil\n",
		new:  "		return nil\n",
		pkg:  texts, tests: "TestI1FoundNamesOfRowTokens",
	},
	{
		name: "catalog: rows of children are stamped",
		file: "rewrite/found.go",
		old:  "		r.patterns = append(r.patterns, rowPattern{tableName{n.Schema, n.Name}, f})\n",
		pkg:  e2e, tests: "TestCatalogStampsRows",
	},
	{
		name: "catalog: what was prepared is judged again",
		file: "wire/relay/judge.go",
		old:  "		e.names.again(a)\n",
		pkg:  e2e, tests: "TestI1CatalogFollowsByLooking",
	},
	{
		name: "catalog: fences are added to an old plan",
		file: "rewrite/again.go",
		old:  "			st.Fences, st.Effect = st.Fences.Union(s), max(st.Effect, EffectWrite)\n",
		pkg:  texts, tests: "TestI1PlansAreJudgedAgain",
	},
	{
		name: "catalog: an old plan of rows that are not stamped is refused",
		file: "rewrite/again.go",
		old:  "				st.Refuse = preparedBefore\n",
		pkg:  texts, tests: "TestI1PlansAreJudgedAgain",
	},
	{
		name: "catalog: a newer one makes another analyzer",
		file: "cmd/fenceproxy/catalogs.go",
		old:  "	if m := d.made.Load(); m.from == now {",
		new:  "	if m := d.made.Load(); m.from != nil || now == nil {",
		pkg:  e2e, tests: "TestI1CatalogFollows",
	},
	{
		name: "catalog: the first session waits for it",
		file: "wire/relay/login.go",
		old:  "	if wait := e.enterDatabase(); len(list) == 0 && !wait {",
		new:  "	if e.enterDatabase(); len(list) == 0 {",
		pkg:  e2e, tests: "TestCatalogOfAReload|TestI1CatalogIsKnown",
	},
	{
		name: "catalog: DDL through the proxy is seen",
		file: "wire/relay/ready.go",
		old:  "			e.catalogChanged()\n",
		pkg:  e2e, tests: "TestI1CatalogFollowsDDLOfItsOwn",
	},
	{
		name: "catalog: columns are uncertain in a transaction with DDL",
		file: "wire/relay/refuse.go",
		old:  "	if p.RestsOnCatalog() && max(e.ddl, p.Catalog) == rewrite.CatalogColumns {",
		new:  "	if false {",
		pkg:  e2e, tests: "TestCatalogStampsRows",
	},
	{
		name: "catalog: columns are not told while DDL may have outrun them",
		file: "cmd/fenceproxy/catalogs.go",
		old:  "	if !c.current() {\n		return t, true\n	}\n",
		pkg:  "cmd/fenceproxy", tests: "TestI5ColumnsOutrunByDDL",
	},
	{
		name: "catalog: a change is found while its session goes on working",
		file: "tokens/catalog/watcher.go",
		old:  "			if now != before {\n",
		new:  "			if now != before && false {\n",
		pkg:  "tokens/catalog", tests: "TestI1WatcherBesideABusySession",
	},
	{
		name: "catalog: nobody's lock keeps it from being read",
		file: "tokens/catalog/snapshot.go",
		old:  "a.attgenerated <> '', a.attidentity <> ''",
		new:  "a.attgenerated <> '' AND coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), 'x') <> '', a.attidentity <> ''",
		pkg:  "tokens/catalog", tests: "TestI1WatcherBesideABusySession",
	},
	{
		name: "catalog: a standby's is read",
		file: "tokens/catalog/watcher.go",
		old:  "err != nil || recovery {",
		new:  "err != nil {",
		pkg:  "tokens/catalog", tests: "TestI1WatcherOfAStandbyThatIsPromoted",
	},
	{
		name: "catalog: a database that nobody uses is let go",
		file: "tokens/catalog/watcher.go",
		old:  "		if d.users == 0 && d.lefts == left {\n			d.forget()\n",
		new:  "		if false {\n",
		pkg:  e2e, tests: "TestCatalogLetsADatabaseBeDropped",
	},
	{
		name: "catalog: CALL is never guarded under opaque_call: allow",
		file: "wire/relay/guard.go",
		old:  "		if st.Kind == rewrite.KindCall && e.cfg.Call == CallAllow {",
		new:  "		if false {",
		pkg:  e2e, tests: "TestCatalogOfProceduresThatCommit",
	},
}
