package rewrite

// libpg_query writes its tree by recursion without a stack check: SELECT 1+1+... of 24,000 terms (48 KB) ends the
// process (measured at 8 MB of stack). So every text is measured on its tokens first, and one that could nest deeper
// than maxDepth is not parsed. Deep parentheses, NOT and CASE are safe: the grammar's own stack stops them.
const maxDepth = 4000

// depthBound returns an upper bound of the depth of the parse tree. Items of a list lie beside each other, so only
// tokens between two commas can build on one another, and what is inside brackets adds to what is around them. Chains
// of UNION, INTERSECT and EXCEPT nest across commas and are counted apart. Literals and dots need an operator to nest.
func depthBound(sql []byte, tokens []token) int {
	type level struct{ item, deepest, sets int }
	total := func(l *level) int { return max(l.item, l.deepest) + l.sets }
	var fixed [32]level
	levels := fixed[:1]
	worst := 0
	for i := range tokens {
		t := &tokens[i]
		top := &levels[len(levels)-1]
		switch {
		case t.isLiteral() || t.kind == param:
		case t.kind != punct || t.end-t.start > 1:
			if t.isWord(sql, "union") || t.isWord(sql, "intersect") || t.isWord(sql, "except") {
				top.sets += 2
			} else {
				top.item++
			}
		case t.c == '(' || t.c == '[':
			top.item++
			levels = append(levels, level{})
		case t.c == ')' || t.c == ']':
			if len(levels) > 1 {
				inner := total(top)
				levels = levels[:len(levels)-1]
				levels[len(levels)-1].item += inner
			}
		case t.c == ',':
			top.deepest = max(top.deepest, top.item)
			top.item = 0
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
