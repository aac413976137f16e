package relay

import (
	"sync"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// ShadowMarks are the marks that observe mode keeps in memory instead of raising any: the highest token that a session
// has presented for each database and fence. Safe for concurrent use.
type ShadowMarks struct {
	mu    sync.Mutex
	marks map[[2]string]tokens.Token
}

// present raises the shadow mark and reports the mark, and whether t is lower.
func (s *ShadowMarks) present(database, fence string, t tokens.Token) (mark tokens.Token, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]string{database, fence}
	m, ok := s.marks[key]
	if ok && t.Compare(m) < 0 {
		return m, true
	}
	if !ok || t != m {
		if s.marks == nil {
			s.marks = make(map[[2]string]tokens.Token)
		}
		s.marks[key] = t
	}
	return t, false
}

func (s *ShadowMarks) mark(database, fence string) (tokens.Token, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.marks[[2]string{database, fence}]
	return m, ok
}

// shadow is what observe mode remembers of a session to count what enforce mode would have refused, and only that: what
// would not have been reached behind a refusal is not counted.
type shadow struct {
	ended   bool // the session would have been refused at startup
	aborted bool // the transaction would have failed
}

func (s *shadow) ready(state byte) {
	if state == wire.TxIdle {
		s.aborted = false
	}
}

func (e *Engine) wouldRefuse(code, fence string) {
	e.shadow.aborted = true
	e.rejected(code, fence, ByShadow, e.about)
}

func (e *Engine) shadowing() bool {
	return !e.shadow.ended && !e.shadow.aborted && e.tx.state != wire.TxFailed
}

// observeStartup judges the token that the session began with.
func (e *Engine) observeStartup() {
	if raw := e.start.Token; raw != "" && !e.observeToken(raw, true) {
		e.shadow.ended = true
	}
}

// observeToken judges an assignment of fence.token and reports whether it would have been taken.
func (e *Engine) observeToken(raw string, local bool) bool {
	if r := e.checkToken(raw, local); r != nil {
		e.wouldRefuse(r.Code, r.Fence)
		return false
	}
	list, _ := tokens.Parse(raw)
	for _, item := range list {
		fence := item.Fence
		if fence == "" {
			fence = e.cfg.Bare
		}
		if _, stale := e.cfg.Shadow.present(e.start.Database, fence, item.Token); stale {
			e.wouldRefuse(tokens.CodeStale, fence)
			return false
		}
	}
	return true
}

func (e *Engine) observeExecute(v verdict) {
	if !e.shadowing() {
		e.observeRollback(v.plan)
		return
	}
	if st := lone(v.plan); st != nil && st.Kind == rewrite.KindSetToken && v.hasToken {
		e.observeToken(v.token, st.Token.Local)
		return
	}
	v.each(e.observePlan)
}

func (e *Engine) observeQuery(p *rewrite.Plan) {
	if !e.shadowing() {
		e.observeRollback(p)
		return
	}
	if r := e.refusalOfPlan(p); r != nil && p.Effect != rewrite.EffectUnknown { // enforce would ask PostgreSQL first
		e.wouldRefuse(r.Code, r.Fence)
		return
	}
	token := e.token.guess
	for i := range p.Statements {
		st := &p.Statements[i]
		if st.Kind == rewrite.KindSetToken && st.Token.Param == 0 {
			if !e.observeToken(st.Token.Value, st.Token.Local) {
				return
			}
			token = present(st.Token.Value)
			continue
		}
		if !e.observeStatement(st, token) {
			return
		}
	}
}

func (e *Engine) observePlan(p *rewrite.Plan) {
	if r := e.refusalOfPlan(p); r != nil && p.Effect != rewrite.EffectUnknown { // enforce would ask PostgreSQL first
		e.wouldRefuse(r.Code, r.Fence)
		return
	}
	for i := range p.Statements {
		if !e.observeStatement(&p.Statements[i], e.token.guess) {
			return
		}
	}
}

// observeStatement judges one statement under the token that the session has as far as the text tells.
func (e *Engine) observeStatement(st *rewrite.Statement, token presented) bool {
	if st.Effect == rewrite.EffectUnknown {
		return true // nearly always a mistake that PostgreSQL refuses; enforce would ask it
	}
	var d demand
	e.addStatement(&d, st)
	for i, fence := range e.cfg.Fences {
		named := token.list
		if !tokens.IsPattern(fence) {
			named = nil
			if t, ok := token.list.For(fence, e.cfg.Bare); ok {
				named = tokens.List{{Fence: fence, Token: t}}
			}
		}
		any := false
		for k := range named.Named(fence) {
			any = true
			if !d.fences.Has(i) && !d.rows.Has(i) && !d.session {
				continue
			}
			if mark, known := e.cfg.Shadow.mark(e.start.Database, named[k].Fence); known && named[k].Token.Compare(mark) < 0 {
				e.wouldRefuse(tokens.CodeStale, fence)
				return false
			}
		}
		if !any && (d.fences.Has(i) || st.RowFences.Has(i) && (fence != e.cfg.Bare || len(token.list) == 0)) {
			e.wouldRefuse(tokens.CodeRequired, fence)
			return false
		}
	}
	if d.session && len(token.list) == 0 && e.cfg.Opaque == OpaqueReject {
		e.wouldRefuse(tokens.CodeRequired, "")
		return false
	}
	return true
}

// observeRollback: in a transaction that would have failed, a rollback ends the failure.
func (e *Engine) observeRollback(p *rewrite.Plan) {
	if p == nil {
		return
	}
	for i := range p.Statements {
		switch p.Statements[i].Kind {
		case rewrite.KindRollback, rewrite.KindRollbackChain, rewrite.KindRollbackTo, rewrite.KindCommit, rewrite.KindCommitChain:
			e.shadow.aborted = false
		}
	}
}
