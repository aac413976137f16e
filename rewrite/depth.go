package rewrite

// libpg_query writes its tree by recursion without a stack check: SELECT 1+1+... of 24,000 terms (48 KB) ends the
// process (measured at 8 MB of stack). So every text is measured on its tokens first, and one that could nest deeper
// than maxDepth is not parsed. Deep parentheses, NOT and CASE are safe: the grammar's own stack stops them.
const maxDepth = 4000

// depthBound returns an upper bound of the depth of the parse tree. Items of a list lie beside each other, and so do the
// operands of AND and OR (gram.y makeAndExpr flattens them), so only tokens between two of these can build on one
// another, and what is inside brackets adds to what is around them. What nests across commas, AND and OR without
// brackets is counted apart: set operations, joins, CASE. Literals and dots need an operator to nest.
func depthBound(sql []byte, tokens []token) int {
	type level struct{ item, deepest, across int }
	total := func(l *level) int { return max(l.item, l.deepest) + l.across }
	var fixed [32]level
	levels := fixed[:1]
	worst := 0
	for i := range tokens {
		t := &tokens[i]
		top := &levels[len(levels)-1]
		switch {
		case t.isLiteral() || t.kind == param:
		case t.kind == word && (t.isWord(sql, "and") || t.isWord(sql, "or")), t.is(','):
			top.deepest = max(top.deepest, top.item)
			top.item = 0
		case t.kind == word && nestsAcross(sql, *t):
			top.across += 2
		case t.kind != punct || t.end-t.start > 1:
			top.item++
		case t.c == '(' || t.c == '[':
			top.item++
			levels = append(levels, level{})
		case t.c == ')' || t.c == ']':
			if len(levels) > 1 {
				inner := total(top)
				levels = levels[:len(levels)-1]
				levels[len(levels)-1].item += inner
			}
		case t.c == ';':
			worst = max(worst, total(top))
			*top = level{}
		}
	}
	open := 0
	for i := range levels {
		open += total(&levels[i])
	}
	return max(worst, open)
}

func nestsAcross(sql []byte, t token) bool {
	switch t.c | 0x20 {
	case 'u':
		return t.isWord(sql, "union")
	case 'i':
		return t.isWord(sql, "intersect")
	case 'e':
		return t.isWord(sql, "except")
	case 'j':
		return t.isWord(sql, "join")
	case 'c':
		return t.isWord(sql, "case")
	}
	return false
}
