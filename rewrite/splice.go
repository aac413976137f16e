package rewrite

import (
	"bytes"
	"cmp"
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// splicer finds where row tokens go into a text. The tree decides what is to be done and gives the anchors, for it has the
// start of some nodes; the tokens give the places, for it has the end of none. Whatever is done to the text is done to the
// tree as well, and in the end the spliced text must parse to that tree: a place that was found wrong is a refusal, never
// wrong SQL.
type splicer struct {
	a      *Analyzer
	sql    []byte
	tokens []token
	text   []byte  // the tokens joined, as they were parsed
	pos    []int32 // where each begins in text
	match  []int32 // of a bracket: its partner
	edits  []edit

	literal bool    // the value of a literal decided something
	asked   []taken // from the catalog
}

// splice adds to the plan what is to be spliced into its text. tree is changed on the way.
func (s *splicer) splice(p *Plan, tree *pg.ParseResult, writes []rowWrite) {
	if !s.matchBrackets() {
		for _, w := range writes {
			p.refuse(w.statement, unspliceable)
		}
		return
	}
	refused := false
	for _, w := range writes {
		if p.Statements[w.statement].MayChangeToken {
			c := *w.fence
			c.wary = true
			w.fence = &c
		}
		var r *Refusal
		switch x := w.node.(type) {
		case *pg.UpdateStmt:
			r = s.update(x, w.fence)
		case *pg.DeleteStmt:
			r = s.delete(x, w.fence)
		case *pg.InsertStmt:
			r = s.insert(x, w.fence)
		case *pg.MergeStmt:
			r = s.merge(x, w.fence)
		}
		if r != nil {
			p.refuse(w.statement, r)
			refused = true
		}
	}
	if refused || len(s.edits) == 0 { // a refused text is not sent, whatever else is in it
		return
	}
	slices.SortStableFunc(s.edits, func(a, b edit) int { return cmp.Compare(a.order(), b.order()) })
	if !s.disjoint() || !s.verified(tree) {
		for _, w := range writes {
			p.refuse(w.statement, unspliceable)
		}
		return
	}
	p.edits, p.Plain, p.ASCIISplice = s.edits, false, true
	for i := range s.edits {
		p.ASCIISplice = p.ASCIISplice && isASCII(s.edits[i].text) && isASCII(s.edits[i].tail)
	}
}

var unspliceable = &Refusal{
	Code:    "ZF004",
	Message: "fenceproxy does not know how to give this statement row tokens",
	Hint:    "Write it in a plainer form, or fence it by hand: assign the row token's column and test it (column < token) in WHERE.",
}

func (p *Plan) refuse(statement int, r *Refusal) {
	if st := &p.Statements[statement]; st.Refuse == nil {
		st.Refuse = r
	}
	p.Plain = false
}

func (e *edit) order() int64 {
	if e.after {
		return int64(e.token)*2 + 1
	}
	return int64(e.token) * 2
}

// disjoint: what is copied must not be edited, or the copy would lack the edit; what is replaced neither.
func (s *splicer) disjoint() bool {
	for i := range s.edits {
		e := &s.edits[i]
		for k := range s.edits {
			o := &s.edits[k]
			if o.token >= e.from && o.token < e.to && !(o.token == e.from && !o.after) && !(o.token == e.to-1 && o.after) {
				return false
			}
			if i != k && e.drop > 0 && o.token >= e.token && o.token < e.token+e.drop {
				return false
			}
		}
	}
	return true
}

// verified parses the spliced text and compares it with the tree.
func (s *splicer) verified(tree *pg.ParseResult) bool {
	var out []byte
	at := int32(0)
	for i := range s.edits {
		e := &s.edits[i]
		place := s.pos[e.token]
		if e.after {
			place = s.end(e.token)
		}
		out = append(append(out, s.text[at:place]...), e.text...)
		if e.to > e.from {
			out = append(out, s.text[s.pos[e.from]:s.end(e.to-1)]...)
		}
		out = append(out, e.tail...)
		if at = place; e.drop > 0 {
			at = s.end(e.token + e.drop - 1)
		}
	}
	out = append(out, s.text[at:]...)
	spliced, err := s.a.parse(out)
	if err != nil {
		return false
	}
	return sameTree(tree, spliced)
}

// end is the offset behind a token in the joined text.
func (s *splicer) end(i int32) int32 {
	next := int32(len(s.text))
	if int(i)+1 < len(s.pos) {
		next = s.pos[i+1]
	}
	return int32(len(bytes.TrimRight(s.text[:next], " ")))
}

// sameTree compares parse trees but for the places in the text that they hold.
func sameTree(a, b *pg.ParseResult) bool {
	forgetPlaces(a.ProtoReflect())
	forgetPlaces(b.ProtoReflect())
	return proto.Equal(a, b)
}

func forgetPlaces(m protoreflect.Message) {
	for _, name := range [...]protoreflect.Name{"location", "stmt_location", "stmt_len", "arg_location", "payload_location", "conninfo_location"} {
		if fd := m.Descriptor().Fields().ByName(name); fd != nil && fd.Kind() == protoreflect.Int32Kind {
			m.Clear(fd)
		}
	}
	eachMessage(m, forgetPlaces)
}

// expression parses an expression of ours.
func (s *splicer) expression(e string) *pg.Node {
	tree, err := s.a.parse([]byte("SELECT " + e))
	if err != nil {
		panic("rewrite: " + e + ": " + err.Error())
	}
	return tree.Stmts[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget().Val
}

// and is what gram.y makes of (a) AND b: makeAndExpr flattens the left side.
func and(a, b *pg.Node) *pg.Node {
	if a == nil {
		return b
	}
	if x := a.GetBoolExpr(); x.GetBoolop() == pg.BoolExprType_AND_EXPR {
		x.Args = append(x.Args, b)
		return a
	}
	return &pg.Node{Node: &pg.Node_BoolExpr{BoolExpr: &pg.BoolExpr{Boolop: pg.BoolExprType_AND_EXPR, Args: []*pg.Node{a, b}}}}
}

func target(name string, val *pg.Node) *pg.Node {
	return &pg.Node{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{Name: name, Val: val}}}
}

func (s *splicer) before(i int, text string) {
	s.edits = append(s.edits, edit{token: int32(i), text: text})
}

func (s *splicer) after(i int, text string) {
	s.edits = append(s.edits, edit{token: int32(i), after: true, text: text})
}

func (s *splicer) replace(i, n int, text string) {
	s.edits = append(s.edits, edit{token: int32(i), drop: int32(n), text: text})
}
