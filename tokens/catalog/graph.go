package catalog

import (
	"cmp"
	"fmt"
	"slices"
)

// graph is what leads where in a database.
type graph struct {
	tree      *Tree
	edges     []edge
	functions []Function
	codes     []code // of the functions, by the same index
	byOID     map[uint32]int
}

func (g *graph) look(functions []Function) {
	g.functions, g.byOID = functions, map[uint32]int{}
	for i, f := range functions {
		g.byOID[f.OID] = i
		g.codes = append(g.codes, f.look())
	}
}

// leads is what writes a fence: statements on relations, and functions.
type leads struct {
	relations map[uint32]Events
	functions map[int]bool // by index
}

// fence walks backwards from the fence's own relations until nothing is added.
func (g *graph) fence(m Members, uses []use) (FenceView, []Invisible) {
	l := leads{relations: map[uint32]Events{}, functions: map[int]bool{}}
	own := map[uint32]bool{}
	for _, r := range m.All {
		own[r.OID] = true
		l.relations[r.OID] = anyWrite
	}
	via := map[uint32][]string{}
	for changed := true; changed; {
		changed = false
		for _, e := range g.edges {
			i, known := g.byOID[e.function]
			if own[e.from] || !(e.to != 0 && l.relations[e.to]&e.toEvents != 0 || e.function != 0 && known && l.functions[i]) {
				continue
			}
			if l.relations[e.from]&e.events != e.events {
				l.relations[e.from] |= e.events
				changed = true
			}
			if !slices.Contains(via[e.from], e.via) {
				via[e.from] = append(via[e.from], e.via)
				changed = true
			}
		}
		names := g.names(l)
		for i := range g.functions {
			if !l.functions[i] && g.writes(i, l, names) {
				l.functions[i] = true
				changed = true
			}
		}
	}
	v := FenceView{Members: m}
	for oid, events := range l.relations {
		r, known := g.tree.Relation(oid)
		if own[oid] || !known {
			continue
		}
		slices.Sort(via[oid])
		v.Routes = append(v.Routes, Route{r, events, via[oid]})
	}
	slices.SortFunc(v.Routes, func(a, b Route) int { return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name)) })
	for i, f := range g.functions {
		if l.functions[i] {
			v.Functions = append(v.Functions, f)
		}
	}
	return v, g.invisible(m.Fence, l, uses)
}

// named is what a word of a text may mean.
type named struct {
	schema     string
	onlyWrites bool // it leads to the fence by writing it only
	function   bool
}

// names are the words by which a text may mean what leads to the fence.
func (g *graph) names(l leads) map[string][]named {
	names := map[string][]named{}
	for oid, events := range l.relations {
		if r, known := g.tree.Relation(oid); known {
			names[r.Name] = append(names[r.Name], named{r.Schema, events&Select == 0, false})
		}
	}
	for i := range l.functions {
		f := g.functions[i]
		names[f.Name] = append(names[f.Name], named{f.Schema, false, true})
	}
	return names
}

// writes says whether a function leads to the fence.
func (g *graph) writes(i int, l leads, names map[string][]named) bool {
	if g.functions[i].extension {
		return false
	}
	c := g.codes[i]
	for _, w := range c.writes {
		if l.relations[w.relation]&w.events != 0 {
			return true
		}
	}
	for _, r := range c.reads {
		if l.relations[r]&Select != 0 {
			return true
		}
	}
	for _, f := range c.calls {
		if j, known := g.byOID[f]; known && l.functions[j] {
			return true
		}
	}
	for word, qualifiers := range c.words {
		for _, n := range names[word] {
			itself := n.function && word == g.functions[i].Name // or another one of its name, which counts by that already
			if qualifiers.mayMean(n.schema) && !itself && (!n.onlyWrites || c.changes || c.dynamic) {
				return true
			}
		}
	}
	return false
}

// unreadable are functions of whose body nothing can be told.
func (g *graph) unreadable() (list []Invisible) {
	for i, f := range g.functions {
		switch c := g.codes[i]; {
		case f.extension:
		case c.closed:
			list = append(list, Invisible{"", fmt.Sprintf("function %s is written in %s, which is not read: it may write anything", f, f.Language)})
		case c.dynamic:
			list = append(list, Invisible{"", fmt.Sprintf("function %s runs SQL that it makes up: it may write anything", f)})
		}
	}
	return list
}
