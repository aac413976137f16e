package torture

import (
	"fmt"
	"slices"
)

// judgeTold compares what workers were told in a schedule with what was committed.
func judgeTold(l *ledger, events []Event) {
	for _, e := range events {
		p := l.fences[e.Fence]
		if e.Op != Write || p == nil {
			continue
		}
		_, committed := p.seen[e.Tx]
		switch {
		case e.Outcome == Done && !committed:
			l.report(Violation{At: e.To, Fence: e.Fence, Tokens: []string{e.Token}, Tx: e.Tx,
				What: fmt.Sprintf("lost: %s was told that transaction %d under token %s is committed, but it is not", e.Who, e.Tx, e.Token)})
		case (e.Outcome == Refused || e.Outcome == Failed) && committed:
			l.report(Violation{At: e.To, Fence: e.Fence, Tokens: []string{e.Token}, Tx: e.Tx,
				What: fmt.Sprintf("%s was told that transaction %d under token %s has failed (%s %s), but it is committed", e.Who, e.Tx, e.Token, e.Outcome, e.Code)})
		}
	}
}

// judgeOwners expects that no token has two owners.
func judgeOwners(l *ledger, events []Event) {
	for _, e := range events {
		p := l.fences[e.Fence]
		if e.Op != Raise || p == nil || e.Shape == "SET LOCAL" {
			continue
		}
		if owner, there := p.owners[e.Token]; there && owner != e.Who {
			l.report(Violation{At: e.To, Fence: e.Fence, Tokens: []string{e.Token}, Tx: e.Tx,
				What: fmt.Sprintf("%s and %s have the same token %s", owner, e.Who, e.Token)})
		}
		p.owners[e.Token] = e.Who
	}
}

// judgeAcknowledged is the guarantee's second sentence, by the clock: a transaction that began after a raise had been
// acknowledged is committed only under that token or a higher one. It also holds for marks that a crash has taken away.
func judgeAcknowledged(l *ledger, events []Event) {
	type acknowledged struct {
		at  int64
		tok position
		who string
	}
	raises := map[string][]acknowledged{}
	for _, e := range events {
		if tok, err := parsePosition(e.Token); err == nil && e.Op == Raise && e.Outcome == Done {
			raises[e.Fence] = append(raises[e.Fence], acknowledged{e.To, tok, e.Who})
		}
	}
	for fence, all := range raises {
		slices.SortFunc(all, func(a, b acknowledged) int { return int(a.at - b.at) })
		for i := 1; i < len(all); i++ { // the highest so far
			if all[i].tok.below(all[i-1].tok) {
				all[i].tok, all[i].who = all[i-1].tok, all[i-1].who
			}
		}
		p := l.fences[fence]
		if highest := all[len(all)-1]; p.mark.below(highest.tok) {
			l.report(Violation{At: highest.at, Fence: fence, Tokens: []string{highest.tok.String()},
				What: fmt.Sprintf("lost mark: %s was told that %v is the mark, but it is %v", highest.who, highest.tok, p.mark)})
		}
		for _, e := range events {
			if e.Fence != fence || e.Op != Write {
				continue
			}
			w, committed := p.seen[e.Tx]
			n, _ := slices.BinarySearchFunc(all, e.From, func(a acknowledged, at int64) int { return int(a.at - at) })
			if committed && n > 0 && w.tok.below(all[n-1].tok) {
				l.report(Violation{At: e.To, Fence: fence, Tokens: []string{e.Token, all[n-1].tok.String()}, Tx: e.Tx,
					What: fmt.Sprintf("stale write: %s began a transaction under token %s after %v had been acknowledged to %s, and it is committed", e.Who, e.Token, all[n-1].tok, all[n-1].who)})
			}
		}
	}
}
