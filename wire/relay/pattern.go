package relay

import (
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// A fence whose name is a pattern has no mark of its own: its guard is that of each token of the session whose name matches
// (fence.guard_pattern). The same function guards the named tokens of a fence whose rows are checked by the statement.

// guardedToken is the only token that the guard of a fence checks; named: of a guard that asks for tokens with a name only.
// Other than for a fence of one name, whose guard asks for that name whatever the session has, a wrong guess would have
// the fast form ask for too little or too much. So the engine must be sure.
func (e *Engine) guardedToken(fence int, named bool) (t tokens.Token, ok bool) {
	name, list := e.cfg.Fences[fence], e.token.guess.list
	if !named && !tokens.IsPattern(name) {
		return list.For(name, e.cfg.Bare)
	}
	if !e.token.sure {
		return t, false
	}
	for i := range list.Named(name) {
		if ok || list[i].Fence != e.marks[fence].Name {
			return t, false
		}
		t, ok = list[i].Token, true
	}
	return t, ok
}

// unnamed takes from d the fences whose rows need no guard, because the session has no token with a name for them.
func (e *Engine) unnamed(d *demand) {
	if d.rows.Empty() || !e.token.sure {
		return
	}
	for i := range d.rows.All() {
		for range e.token.guess.list.Named(e.cfg.Fences[i]) {
			return
		}
	}
	d.rows = rewrite.FenceSet{}
}

// eachGuard calls f for each guard that d's fences need: one for all that have a mark (pattern is -1), then one for each of
// the others.
func (e *Engine) eachGuard(d *demand, f func(pattern int, only demand)) {
	marked := d.fences
	if e.patterns {
		marked = rewrite.FenceSet{}
		for i := range d.fences.All() {
			if !tokens.IsPattern(e.cfg.Fences[i]) {
				marked = marked.Union(rewrite.OneFence(i))
			}
		}
	}
	if !marked.Empty() {
		f(-1, demand{fences: marked, shape: d.shape})
	}
	for i := range d.fences.All() {
		if !marked.Has(i) {
			f(i, demand{fences: rewrite.OneFence(i), shape: d.shape})
		}
	}
	for i := range d.rows.All() {
		if !d.fences.Has(i) {
			f(i, demand{rows: rewrite.OneFence(i), shape: d.shape})
		}
	}
}

func (e *Engine) guardPattern(fence int, d demand) {
	e.rec.Guard(GuardSlow)
	e.prepareReserved(reservedPattern)
	portal := e.reserved.portal()
	at := len(e.cmem)
	e.cmem = wire.AppendBind(e.cmem, portal, e.reserved.name(reservedPattern), []byte(e.cfg.Fences[fence]), []byte(e.cfg.Bare), boolText(d.fences.Empty()))
	e.cmem = wire.AppendExecute(e.cmem, portal)
	e.cmem = wire.AppendClose(e.cmem, wire.TargetPortal, portal)
	e.act.before = append(e.act.before, e.cmem[at:])
	e.pushInjected(forGuard, e.newRun(d))
}

// staleToken finds a token for the fence that is known to be stale.
func (e *Engine) staleToken(fence string, named bool) *refusal {
	list := e.token.guess.list
	if !named && !tokens.IsPattern(fence) {
		t, ok := list.For(fence, e.cfg.Bare)
		if !ok {
			return nil
		}
		return e.knownStaleToken(fence, t)
	}
	for i := range list.Named(fence) {
		if r := e.knownStaleToken(list[i].Fence, list[i].Token); r != nil {
			return r
		}
	}
	return nil
}

func (e *Engine) knownStaleToken(fence string, t tokens.Token) *refusal {
	mark, stale := e.cfg.Known.Stale(e.session.Database, fence, t)
	if !stale {
		return nil
	}
	return refuse(tokens.Stale(fence, t, mark))
}

func anyPattern(fences []string) bool {
	for _, f := range fences {
		if tokens.IsPattern(f) {
			return true
		}
	}
	return false
}
