package rewrite

// add appends a statement and keeps what the plan says of all of them.
func (p *Plan) add(st Statement, first int32) {
	p.Statements = append(p.Statements, st)
	p.first = append(p.first, first)
	p.Fences = p.Fences.Union(st.Fences)
	p.Effect = max(p.Effect, st.Effect)
	p.Catalog = max(p.Catalog, st.Catalog)
	p.Plain = len(p.Statements) == 1 && st.plain() || p.Plain && st.plain()
}

// plain reports whether the engine may forward the statement and forget it. KindNoBlock is not: such a statement
// commits at once, also in the middle of a pipeline (XACT_FLAGS_NEEDIMMEDIATECOMMIT), and with it goes every guard.
func (st *Statement) plain() bool {
	switch st.Kind {
	case KindOther, KindEmpty, KindSet, KindCopyOut:
		return st.Effect <= EffectWrite && st.Fences.Empty() && st.RowFences.Empty() && st.NewRows.Empty() && !st.MayChangeToken && !st.ChangesLexing &&
			!st.MayLiftReadOnly && st.Refuse == nil
	}
	return false
}

// size is the memory of the plan in bytes, near enough for the bound of a cache.
func (p *Plan) size() int64 {
	n := 192 + 4*len(p.first)
	for i := range p.edits {
		n += 40 + len(p.edits[i].text)
	}
	for i := range p.taken {
		n += 120 + 16*len(p.taken[i].columns)
	}
	for i := range p.Statements {
		st := &p.Statements[i]
		n += 200 + len(st.Name) + 8*len(st.Fences.words)
		n += int(st.Uses.size())
		if st.Token != nil {
			n += 32 + len(st.Token.Value)
		}
	}
	return int64(n)
}
