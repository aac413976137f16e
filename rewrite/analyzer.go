package rewrite

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"unicode/utf8"
)

const (
	defaultCacheBytes    = 16 << 20
	defaultMaxParseBytes = 256 << 10
	maxExact             = 4096 // texts longer than this go by their shape only
)

// Analyzer judges SQL texts under one Config. Safe for concurrent use.
type Analyzer struct {
	tables    tables
	functions functions
	callers   callers    // functions of the catalog
	rows      *rowFences // nil without row tokens
	maxParse  int
	exact     *cache // by text: what a literal decides, what cannot be read, and texts without literals
	shapes    *cache // by token shape
	unknown   map[string]unreadable
	stats     counters

	asciiNames bool
}

// New returns an Analyzer for cfg. An error names the fence and the table, or the function, that cannot be read.
func New(cfg Config) (*Analyzer, error) {
	t, err := newTables(cfg.Fences)
	if err != nil {
		return nil, err
	}
	f, err := newFunctions(cfg.HarmlessFunctions)
	if err != nil {
		return nil, err
	}
	if cfg.CacheBytes <= 0 {
		cfg.CacheBytes = defaultCacheBytes
	}
	if cfg.MaxParseBytes <= 0 {
		cfg.MaxParseBytes = defaultMaxParseBytes
	}
	r, err := newRowFences(cfg.Fences, cfg.Catalog)
	if err != nil {
		return nil, err
	}
	a := &Analyzer{
		tables: t, functions: f, callers: newCallers(cfg.Fences), rows: r, maxParse: min(cfg.MaxParseBytes, math.MaxInt32/4),
		exact: newCache(cfg.CacheBytes), shapes: newCache(cfg.CacheBytes), unknown: map[string]unreadable{},
	}
	a.asciiNames = true
	for _, f := range cfg.Fences {
		a.asciiNames = a.asciiNames && isASCII(f.RowToken) && isASCII(f.Scope)
		for _, t := range f.Tables {
			a.asciiNames = a.asciiNames && isASCII(t)
		}
		for _, names := range [][]Name{f.Found.Children, f.Found.Views, f.Found.Functions} {
			for _, n := range names {
				a.asciiNames = a.asciiNames && isASCII(n.Schema) && isASCII(n.Name)
			}
		}
	}
	for _, why := range []string{
		failEncoding, failBackslash, failUTF8, failNUL, failLong, failDeep, failSyntax, failTree, string(lexOpenString), string(lexOpenComment),
		string(lexStringComment), string(lexNumber), string(lexCharacter), string(lexOperator),
	} {
		a.unknown[why] = a.newUnreadable(why)
	}
	return a, nil
}

// All returns the set of all fences.
func (a *Analyzer) All() FenceSet { return a.tables.all }

// Analyze judges a text. The text is not kept; the result is valid until the next call with the same Scratch, its Plan
// for ever. No error: what cannot be read is EffectUnknown. Nothing is allocated when a cache has the text or its shape.
func (a *Analyzer) Analyze(sc *Scratch, sql []byte, s Settings) Analysis {
	if s.BackslashQuotes && (bytes.IndexByte(sql, '\\') >= 0 || bytes.Contains(sql, []byte("&'"))) {
		return a.refuse(sc, sql, failBackslash)
	}
	if s.UnsafeEncoding && hasHighBit(sql) {
		return a.refuse(sc, sql, failEncoding)
	}
	var h uint64
	if len(sql) <= maxExact {
		h = a.exact.hash(sql)
		if e := a.exact.get(h, sql); e != nil && a.fresh(e.plan) {
			stripe := &a.stats.stripes[h>>60]
			stripe.exact.Add(1)
			if e.plan.Failure != "" {
				stripe.unknown.Add(1)
			}
			return Analysis{e.plan, e.starts, e.patches}
		}
	}
	defer sc.trim()
	if why := a.tokenize(sc, sql); why != "" {
		a.stats.misses.Add(1)
		return a.refuse(sc, sql, why)
	}
	sc.shape = appendShape(sc.shape[:0], sql, sc.tokens)
	hs := a.shapes.hash(sc.shape)
	if e := a.shapes.get(hs, sc.shape); e != nil && a.fresh(e.plan) {
		a.stats.stripes[hs>>60].shape.Add(1)
		an := a.lay(sc, sql, e.plan)
		if len(sql) <= maxExact && !hasLiterals(sc.tokens) {
			a.exact.put(h, sql, an.Plan, slices.Clone(an.Starts), slices.Clone(an.Patches)...)
		}
		return an
	}
	a.stats.misses.Add(1)
	plan, literal := a.judge(sql, sc.tokens)
	if plan.Failure == "" {
		plan.sign(sc.shape)
	}
	an := a.lay(sc, sql, plan)
	if plan.Failure != "" {
		a.stats.stripes[0].unknown.Add(1)
	}
	if plan.Failure == "" && !literal {
		a.shapes.put(hs, sc.shape, plan, nil)
	}
	if len(sql) <= maxExact && (plan.Failure != "" || literal || !hasLiterals(sc.tokens)) {
		a.exact.put(h, sql, plan, slices.Clone(an.Starts), slices.Clone(an.Patches)...)
	}
	return an
}

// tokenize fills sc.tokens, bulk rows and elements of long lists left out, or says why it cannot.
func (a *Analyzer) tokenize(sc *Scratch, sql []byte) string {
	sc.tokens, sc.lists.active = sc.tokens[:0], false
	sc.rows = rowFolder{out: sc.rows.out[:0], record: a.rows != nil}
	if !utf8.Valid(sql) {
		return failUTF8
	}
	if bytes.IndexByte(sql, 0) >= 0 { // the end of a C string
		return failNUL
	}
	for i := 0; i < len(sql); {
		if sql[i] == ' ' {
			i++
			continue
		}
		var t token
		next, why := skipBlank(sql, i)
		if why == "" && next == len(sql) {
			break
		}
		if why == "" {
			t, why = lexToken(sql, next)
		}
		if why != "" {
			return string(why)
		}
		i = int(t.end)
		if !t.isLiteral() && i-int(t.start) > a.maxParse || len(sc.tokens) >= a.maxParse/2 {
			return failLong
		}
		sc.tokens = append(sc.tokens, t)
		if t.kind == punct && (sc.lists.active || t.c == '(' || t.c == '[') {
			sc.tokens = sc.lists.push(sql, sc.tokens, sc.rows.expectsRow())
		}
		if sc.rows.watches(t) {
			sc.tokens = sc.rows.push(sql, sc.tokens)
		}
	}
	return ""
}

// judge parses the tokens and judges the tree. literal says that the value of a literal decided something, so that the
// plan does not hold for other texts of the shape.
func (a *Analyzer) judge(sql []byte, tokens []token) (plan *Plan, literal bool) {
	if depthBound(sql, tokens) > maxDepth {
		return a.unreadable(failDeep, sql), false
	}
	text, pos := appendText(nil, sql, tokens, true, nil)
	plan, literal = a.judgeText(sql, tokens, text, pos)
	if literal {
		if full, pos := appendText(nil, sql, tokens, false, nil); !bytes.Equal(full, text) {
			plan, _ = a.judgeText(sql, tokens, full, pos)
		}
	}
	return plan, literal
}

func (a *Analyzer) judgeText(sql []byte, tokens []token, text []byte, pos []int32) (p *Plan, literal bool) {
	defer func() { // one client's text must not end the sessions of all others
		if recover() != nil {
			p, literal = a.unreadable(failTree, sql), false
		}
	}()
	if len(text) > a.maxParse {
		return a.unreadable(failLong, sql), false
	}
	tree, err := a.parse(text)
	if err != nil {
		return a.unreadable(failSyntax, sql), false
	}
	p = &Plan{}
	generation, asked := uint64(0), []taken(nil)
	if a.rows != nil && a.rows.catalog != nil { // before it is asked
		generation = a.rows.catalog.Generation()
	}
	var writes []rowWrite
	for i, raw := range tree.Stmts {
		j := judge{a: a}
		st := j.statement(raw.Stmt)
		literal, asked = literal || j.literal, append(asked, j.asked...)
		if j.rowRefusal != nil && st.Refuse == nil {
			st.Refuse = j.rowRefusal
		}
		for _, w := range j.writes {
			w.statement = i
			writes = append(writes, w)
		}
		// RawStmt.stmt_location is behind the semicolon of the statement before; blanks may follow.
		first := sort.Search(len(pos), func(i int) bool { return pos[i] >= raw.StmtLocation })
		for first < len(pos)-1 && text[pos[first]] == ';' {
			first++
		}
		p.add(st, int32(first))
	}
	if len(tree.Stmts) == 0 {
		p.add(Statement{Kind: KindEmpty, Verb: "EMPTY"}, int32(len(pos)))
	}
	if len(writes) > 0 {
		sp := splicer{a: a, sql: sql, tokens: tokens, text: text, pos: pos}
		sp.splice(p, tree, writes)
		literal, asked = literal || sp.literal, append(asked, sp.asked...)
	}
	if len(asked) > 0 && a.rows.catalog != nil {
		p.catalog, p.taken, p.Plain = generation+1, asked, false
		if a.rows.catalog.Generation() != generation { // nobody can tell which one has answered
			p.catalog = ofNoGeneration
		}
	}
	return p, literal
}

const ofNoGeneration = math.MaxUint64

// fresh reports whether what the plan took from the catalog is still so.
func (a *Analyzer) fresh(p *Plan) bool {
	return p.catalog == 0 || p.catalog == a.rows.catalog.Generation()+1
}

// lay computes where the statements of the plan begin in this text, and where its edits go.
func (a *Analyzer) lay(sc *Scratch, sql []byte, p *Plan) Analysis {
	sc.starts = sc.starts[:0]
	for _, f := range p.first {
		start := int32(0)
		if int(f) < len(sc.tokens) {
			start = sc.tokens[f].start
		}
		sc.starts = append(sc.starts, start)
	}
	sc.patches = sc.patches[:0]
	if len(p.edits) > 0 {
		sc.patch(sql, p.edits)
	}
	return Analysis{p, sc.starts, sc.patches}
}

func (a *Analyzer) refuse(sc *Scratch, sql []byte, why string) Analysis {
	a.stats.stripes[0].unknown.Add(1)
	sc.starts = append(sc.starts[:0], 0)
	return Analysis{a.unreadable(why, sql), sc.starts, nil}
}

func hasHighBit(sql []byte) bool {
	for _, c := range sql {
		if c >= 0x80 {
			return true
		}
	}
	return false
}

// ASCIINames reports whether the names of all fenced tables, schemas and columns are ASCII, and of what was found.
func (a *Analyzer) ASCIINames() bool { return a.asciiNames }
