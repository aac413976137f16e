package rewrite

import "slices"

// Uses are the names of a statement by which its fences were found. A prepared statement outlives the Analyzer that has
// judged it, and its text need not be kept for another one to judge it again.
type Uses struct {
	tables []usedTable
	calls  []tableName
}

type usedTable struct {
	tableName
	rows bool // rows of it are written, with a token of
	row  int  // the row fence of this index, plus one; 0 without
}

func (j *judge) uses() *Uses {
	if j.st.Uses == nil {
		j.st.Uses = &Uses{}
	}
	return j.st.Uses
}

func (u *Uses) table(t usedTable) {
	if !slices.Contains(u.tables, t) {
		u.tables = append(u.tables, t)
	}
}

func (u *Uses) call(n tableName) {
	if !slices.Contains(u.calls, n) {
		u.calls = append(u.calls, n)
	}
}

func (u *Uses) size() int64 {
	if u == nil {
		return 0
	}
	return int64(48 + 48*len(u.tables) + 32*len(u.calls))
}

// fencesOf finds the fences of a table that the statement changes, and keeps its name for Again.
func (j *judge) fencesOf(n tableName) FenceSet {
	j.uses().table(usedTable{tableName: n})
	return j.a.tables.find(n)
}

// Again judges a plan that another Analyzer of the same fences has made, of another catalog: what a now knows to write a
// fence is added to the plan, nothing is taken away. The plan itself if there is nothing to add. A statement whose rows
// would have to be given tokens, which its text has not, is refused.
func (a *Analyzer) Again(p *Plan) *Plan {
	var q *Plan
	for i := range p.Statements {
		st := p.Statements[i]
		if st.Uses == nil || !a.again(&st) {
			continue
		}
		if q == nil {
			q = &Plan{}
			*q = *p
			q.Statements = slices.Clone(p.Statements)
		}
		q.Statements[i] = st
	}
	if q == nil {
		return p
	}
	q.Plain = false
	for i := range q.Statements {
		q.Fences = q.Fences.Union(q.Statements[i].Fences)
		q.Effect = max(q.Effect, q.Statements[i].Effect)
	}
	return q
}

func (a *Analyzer) again(st *Statement) (changed bool) {
	add := func(s FenceSet) {
		if !s.within(st.Fences) {
			st.Fences, st.Effect = st.Fences.Union(s), max(st.Effect, EffectWrite)
			changed = true
		}
	}
	for _, t := range st.Uses.tables {
		s := a.tables.find(t.tableName)
		if t.rows && a.rows != nil {
			var asked []taken
			f, many := a.rows.find(t.tableName, &asked)
			if (many || a.rows.view(t.tableName) || f != nil && f.index+1 != t.row) && st.Refuse == nil {
				st.Refuse = preparedBefore
				changed = true
			}
			if f != nil && f.rewrite && f.index+1 == t.row {
				s = s.without(newFenceSet(f.index))
			}
		}
		add(s)
	}
	for _, n := range st.Uses.calls {
		if a.functions[n] {
			continue
		}
		if s := a.callers.find(n); !s.Empty() {
			add(s)
			if st.Effect < EffectOpaque {
				st.Effect, st.MayChangeToken, st.ChangesLexing = EffectOpaque, true, true
				changed = true
			}
		}
	}
	return changed
}

var preparedBefore = &Refusal{
	Code:    "ZF004",
	Message: "the statement was prepared before fenceproxy knew that it writes rows with tokens",
	Hint:    "Prepare it again. Through a view such rows cannot be written: name the table.",
}
