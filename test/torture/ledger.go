package torture

import (
	"fmt"
	"slices"
	"strings"
)

// ledger follows the commit log and knows at each moment what the fence's data must look like. It keeps the judges'
// state from the beginning of a run to its end.
type ledger struct {
	fences map[string]*page
	report func(Violation)
}

// page is a fence's part.
type page struct {
	mark     position // highest raised so far
	last     position // highest that a committed transaction had
	tail     int64    // element of the chain
	balances [accounts]int64
	sets     map[int64][]int64
	owners   map[string]string // who had a token

	// Of the present schedule:
	seen   map[int64]writing // transactions by their id
	raised []position        // marks
}

// writing is a committed transaction's part at a fence.
type writing struct {
	tok      position
	el, prev int64 // of the chain, 0 for none
}

// Violation of the guarantee or of an invariant that follows from it.
type Violation struct {
	At     int64
	Fence  string
	What   string
	Tokens []string // that play a part in it
	Tx     int64    // that should not have been committed, 0 if it is not about one
}

func newLedger(report func(Violation)) *ledger {
	l := &ledger{fences: map[string]*page{}, report: report}
	for _, s := range stages {
		p := &page{sets: map[int64][]int64{1: {}}, owners: map[string]string{}, seen: map[int64]writing{}}
		for i := range p.balances {
			p.balances[i] = opening
		}
		l.fences[s.Fence] = p
	}
	return l
}

// registers is the state before a schedule.
func (l *ledger) registers() map[string]register {
	all := map[string]register{}
	for fence, p := range l.fences {
		clear(p.seen)
		p.raised = nil
		all[fence] = register{p.mark, p.tail}
	}
	return all
}

// enter judges one committed transaction.
func (l *ledger) enter(c Commit) {
	touched := map[string]position{}
	accounts := map[string]bool{}
	for _, r := range c.Changes {
		if r.Fence == "fence" {
			l.raise(c, r)
			continue
		}
		p := l.fences[r.Fence]
		if p == nil || r.Kind == "DELETE" {
			continue
		}
		tok, err := parsePosition(r.Columns["tok"])
		if err != nil {
			l.violated(c, r.Fence, fmt.Sprintf("a row without a token: %v", r.Columns))
			continue
		}
		wrote := p.seen[r.number("tx")]
		wrote.tok = tok
		if _, again := touched[r.Fence]; !again {
			l.judgeOrder(c, r, p, tok)
			touched[r.Fence] = tok
		}
		switch r.Table {
		case "head":
			if r.number("prev") != p.tail {
				l.violated(c, r.Fence, fmt.Sprintf("lost element: token %v has put %s behind %s, but the newest committed element was %d",
					tok, r.Columns["el"], r.Columns["prev"], p.tail), tok.String(), p.last.String())
			}
			p.tail = r.number("el")
			wrote.el, wrote.prev = r.number("el"), r.number("prev")
		case "acct":
			p.balances[r.number("id")-1] = r.number("bal")
			accounts[r.Fence] = true
		case "els":
			gen, list := r.number("gen"), numbers(r.Columns["list"])
			for _, el := range p.sets[gen] {
				if !slices.Contains(list, el) {
					l.violated(c, r.Fence, fmt.Sprintf("set %d has lost %d under token %v", gen, el, tok), tok.String(), p.last.String())
				}
			}
			p.sets[gen] = list
			delete(p.sets, gen-2)
		}
		p.seen[r.number("tx")] = wrote
	}
	for fence := range accounts {
		p := l.fences[fence]
		var sum int64
		for _, b := range p.balances {
			sum += b
		}
		if sum != int64(len(p.balances))*opening {
			l.violated(c, fence, fmt.Sprintf("the accounts hold %d, not %d, after a transfer under token %v", sum, len(p.balances)*opening, touched[fence]),
				touched[fence].String(), p.last.String())
			p.balances[0] -= sum - int64(len(p.balances))*opening // report it once
		}
	}
}

// judgeOrder is the guarantee itself.
func (l *ledger) judgeOrder(c Commit, r Row, p *page, tok position) {
	switch {
	case tok.below(p.mark):
		l.violated(c, r.Fence, fmt.Sprintf("stale write: a transaction under token %v was committed after the mark had been raised to %v", tok, p.mark), tok.String(), p.mark.String())
	case tok.below(p.last):
		l.violated(c, r.Fence, fmt.Sprintf("tokens decrease: a transaction under token %v was committed after one under %v", tok, p.last), tok.String(), p.last.String())
	case p.mark.below(tok):
		l.violated(c, r.Fence, fmt.Sprintf("a transaction under token %v was committed while the mark was %v", tok, p.mark), tok.String(), p.mark.String())
	}
	if p.last.below(tok) {
		p.last = tok
	}
}

func (l *ledger) raise(c Commit, r Row) {
	p := l.fences[r.Columns["name"]]
	if p == nil {
		return
	}
	mark := position{r.number("epoch"), r.number("token")}
	if mark.below(p.mark) || r.Kind == "DELETE" {
		l.violated(c, r.Columns["name"], fmt.Sprintf("a mark went down (%s): from %v to %v", r.Kind, p.mark, mark), mark.String(), p.mark.String())
	}
	p.mark = mark
	p.raised = append(p.raised, mark)
}

func (l *ledger) violated(c Commit, fence, what string, tokens ...string) {
	v := Violation{At: c.At, Fence: fence, What: what + " (commit record " + c.LSN + ")", Tokens: tokens}
	for _, r := range c.Changes {
		if r.Fence == fence {
			v.Tx = r.number("tx")
		}
	}
	l.report(v)
}

func numbers(array string) (list []int64) {
	for _, s := range strings.FieldsFunc(array, func(r rune) bool { return r < '0' || r > '9' }) {
		var n int64
		fmt.Sscan(s, &n)
		list = append(list, n)
	}
	return list
}
