package main

const texts = "rewrite"

func init() { mutants = append(mutants, rowMutants...) }

// rowMutants are the safeguards of row tokens.
var rowMutants = []mutant{
	{
		name: "rows: the engine sends the spliced text",
		file: "wire/relay/splice.go",
		old:  "	return p.Spliced() && e.enforcing()",
		new:  "	return false && e.enforcing()",
		pkg:  e2e, tests: "TestRowTokens",
	},
	{
		name: "rows: new rows of a named token are guarded",
		file: "wire/relay/guard.go",
		old:  "			d.rows = d.rows.Union(st.NewRows)\n",
		pkg:  e2e, tests: "TestRowTokensOfPatterns",
	},
	{
		name: "rows: what EXECUTE runs may be refused",
		file: "wire/relay/refuse.go",
		old:  "		if r := e.refusalOfRun(st); r != nil {",
		new:  "		if r := e.refusalOfRun(st); false && r != nil {",
		pkg:  e2e, tests: "TestRowTokensRe",
	},
	{
		name: "rows: reject compares the row's token",
		file: "tokens/schema/*.sql",
		old:  "  IF row_value OPERATOR(pg_catalog.>) token THEN\n",
		new:  "  IF false THEN\n",
		pkg:  texts, tests: "TestI1WaiterSeesTheNewerToken|TestRowCasesOnServer",
	},
	{
		name: "rows: rewrite leaves newer rows out",
		file: "rewrite/spliceupdate.go",
		old:  "return s.where(&u.WhereClause, len(u.ReturningList) > 0, from, s.stop(from), f.filter(rowOf(u.Relation)))",
		new:  "_ = from\n	return nil",
		pkg:  texts, tests: "TestI1WaiterSeesTheNewerToken|TestRowCasesOnServer",
	},
	{
		name: "rows: ON CONFLICT DO UPDATE is an UPDATE",
		file: "rewrite/spliceinsert.go",
		old:  "return s.where(&c.WhereClause, false, from, end, f.filter(rowOf(rv)))",
		new:  "_ = from\n	return nil",
		pkg:  texts, tests: "TestI1WaiterSeesTheNewerToken|TestRowCasesOnServer",
	},
	{
		name: "rows: DELETE is checked behind its condition",
		file: "rewrite/spliceupdate.go",
		old:  "	if !steady(d.WhereClause) {",
		new:  "	if f != nil {\n		return s.where(&d.WhereClause, returning, from, end, f.check(row))\n	}\n	if !steady(d.WhereClause) {",
		pkg:  texts, tests: "TestRowCasesAreSpliced",
	},
	{
		name: "rows: a condition that may change its answer is not written twice",
		file: "rewrite/spliceupdate.go",
		old:  "	if !steady(d.WhereClause) {",
		new:  "	if false {",
		pkg:  texts, tests: "TestRowCasesAreSpliced",
	},
	{
		name: "rows: NULL is no newer token",
		file: "rewrite/rowfence.go",
		old:  "return \"COALESCE(\" + f.col(row) + \", 0)",
		new:  "return \"(\" + f.col(row) + \")",
		pkg:  texts, tests: "TestRowCasesOnServer",
	},
	{
		name: "rows: an assignment by hand needs its test",
		file: "rewrite/handwritten.go",
		old:  "		if t == assigned {",
		new:  "		if t != \"\" {",
		pkg:  texts, tests: "TestRowCasesAreSpliced|TestHandWrittenNumbersAreNotPartOfTheShape",
	},
	{
		name: "rows: the numbers of fencing by hand are not part of the shape",
		file: "rewrite/handwritten.go",
		old:  "		s.literal = true\n",
		pkg:  texts, tests: "TestHandWrittenNumbersAreNotPartOfTheShape",
	},
	{
		name: "rows: a bare column is another table's where there is one",
		file: "rewrite/handwritten.go",
		old:  "		return alone\n",
		new:  "		return true\n",
		pkg:  texts, tests: "TestRowCasesAreSpliced",
	},
	{
		name: "rows: what rewrite creates keeps its guard",
		file: "rewrite/rowwrite.go",
		old:  "	if inserts(node) {",
		new:  "	if false {",
		pkg:  texts, tests: "TestI1DemandsOfRowFences",
	},
	{
		name: "rows: reject keeps the guard",
		file: "rewrite/rowwrite.go",
		old:  "	if !f.rewrite {\n		j.write(rv)\n		return\n	}\n",
		new:  "	if false {\n		return\n	}\n",
		pkg:  texts, tests: "TestI1DemandsOfRowFences",
	},
	{
		name: "rows: other fences of the table keep their guard",
		file: "rewrite/rowwrite.go",
		old:  "	j.fence(j.a.tables.find(tableName{rv.Schemaname, rv.Relname}).without(own))\n",
		pkg:  texts, tests: "TestI1OtherFencesKeepTheirGuard",
	},
	{
		name: "rows: rows left out are stamped too",
		file: "rewrite/splicequery.go",
		old:  "e := edit{token: s.match[i], rows: true, text: \", \" + f.each}",
		new:  "e := edit{token: s.match[i], text: \", \" + f.each}",
		pkg:  texts, tests: "TestSpliceDiffersByStampsOnly|TestRowCasesOnServer",
	},
	{
		name: "rows: plans hold for their generation of the catalog",
		file: "rewrite/analyzer.go",
		old:  "return p.catalog == 0 || p.catalog == a.rows.catalog.Generation()+1",
		new:  "return true",
		pkg:  texts, tests: "TestPlansHoldForTheirGenerationOfTheCatalog",
	},
	{
		name: "rows: a scope is the row's own",
		file: "rewrite/rowfence.go",
		old:  "	return \"fence.row_scoped(\" + f.name(row) + \")\"",
		new:  "	return f.once",
		pkg:  texts, tests: "TestScopeTellsWhoseARowIs",
	},
}
