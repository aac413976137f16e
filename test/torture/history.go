package torture

import "fmt"

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
			l.report(Violation{At: e.To, Fence: e.Fence, Tokens: []string{e.Token},
				What: fmt.Sprintf("lost: %s was told that transaction %d under token %s is committed, but it is not", e.Who, e.Tx, e.Token)})
		case (e.Outcome == Refused || e.Outcome == Failed) && committed:
			l.report(Violation{At: e.To, Fence: e.Fence, Tokens: []string{e.Token},
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
			l.report(Violation{At: e.To, Fence: e.Fence, Tokens: []string{e.Token},
				What: fmt.Sprintf("%s and %s have the same token %s", owner, e.Who, e.Token)})
		}
		p.owners[e.Token] = e.Who
	}
}
