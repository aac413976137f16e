package torture

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// linearLimit bounds the search for an order of one fence's history. One that is not found in time is undecided.
const linearLimit = 3 * time.Second

// register is what a fence is to its clients: a mark and the newest element of the chain.
type register struct {
	mark position
	el   int64
}

// operation is an Event to the checker.
type operation struct {
	Event
	tok position
}

// step is what an operation may do to the register. None: it cannot have happened here.
func step(state, input, _ any) []any {
	s, o := state.(register), input.(operation)
	done := s
	possible := false
	switch o.Op {
	case Raise:
		possible = !o.tok.below(s.mark)
		done.mark = o.tok
	case Write:
		possible = o.tok == s.mark && (o.El == 0 || o.Prev == s.el)
		if o.El != 0 {
			done.el = o.El
		}
	case Read:
		possible = o.El == s.el
	}
	switch {
	case o.Outcome == Done && possible:
		return []any{done}
	case o.Outcome == Unknown && possible:
		return []any{done, s}
	case o.Outcome == Unknown:
		return []any{s}
	case o.Outcome == Refused && o.Code == "ZF001" && o.tok.below(s.mark):
		return []any{s}
	case o.Outcome == Refused && o.Code != "ZF001":
		return []any{s}
	}
	return nil
}

// judgeLinear looks for an order of each fence's operations in which they could have happened one after the other, each
// between its call and its answer. What was committed or raised without anybody's telling, because the teller was
// killed, has happened at some time.
func judgeLinear(l *ledger, before map[string]register, events []Event, sum *Summary) {
	histories := map[string][]porcupine.Operation{}
	told := map[string]bool{}
	add := func(o operation) {
		to := o.To
		if o.Outcome == Unknown {
			to = math.MaxInt64
		}
		histories[o.Fence] = append(histories[o.Fence], porcupine.Operation{Input: o, Call: o.From, Return: to})
	}
	// A proxy remembers what was acknowledged, and says so again without asking: that tells nothing about the mark now.
	acknowledged := map[string]int64{}
	for _, e := range events {
		if at, there := acknowledged[e.Fence+"="+e.Token]; e.Op == Raise && e.Outcome == Done && (!there || e.To < at) {
			acknowledged[e.Fence+"="+e.Token] = e.To
		}
	}
	begin := int64(math.MaxInt64)
	for _, e := range events {
		begin = min(begin, e.From)
		if at, there := acknowledged[e.Fence+"="+e.Token]; e.Op == Raise && e.Outcome == Done && there && at < e.To {
			continue
		}
		tok, err := parsePosition(e.Token)
		if err != nil || e.Op != Raise && e.Op != Write && e.Op != Read || e.Outcome == Failed || e.Op == Read && e.Outcome != Done {
			continue
		}
		switch e.Op {
		case Write:
			told[fmt.Sprint(e.Fence, "tx", e.Tx)] = true
		case Raise:
			told[fmt.Sprint(e.Fence, "raise", tok)] = true
		}
		add(operation{e, tok})
	}
	for fence, p := range l.fences {
		for tx, r := range p.seen {
			if !told[fmt.Sprint(fence, "tx", tx)] {
				add(operation{Event{From: begin, Fence: fence, Op: Write, Outcome: Unknown, El: r.el, Prev: r.prev}, r.tok})
			}
		}
		for _, m := range p.raised {
			if !told[fmt.Sprint(fence, "raise", m)] {
				add(operation{Event{From: begin, Fence: fence, Op: Raise, Outcome: Unknown}, m})
			}
		}
	}
	for fence, history := range histories {
		model := porcupine.NondeterministicModel{Init: func() []any { return []any{before[fence]} }, Step: step}
		switch porcupine.CheckOperationsTimeout(model.ToModel(), history, linearLimit) {
		case porcupine.Ok:
			sum.Linearizable++
		case porcupine.Unknown:
			sum.Undecided++
		case porcupine.Illegal:
			l.report(Violation{At: now(), Fence: fence, What: fmt.Sprintf("the history of %d operations is not linearizable%s", len(history), blame(before[fence], history))})
		}
	}
}

// blame finds the shortest beginning of the history that has no order, and tells its last operation.
func blame(before register, history []porcupine.Operation) string {
	model := porcupine.NondeterministicModel{Init: func() []any { return []any{before} }, Step: step}
	ends := make([]int64, 0, len(history))
	for _, o := range history {
		if o.Return != math.MaxInt64 {
			ends = append(ends, o.Return)
		}
	}
	slices.Sort(ends)
	low, high := 0, len(ends)-1
	for low < high {
		middle := (low + high) / 2
		if porcupine.CheckOperationsTimeout(model.ToModel(), until(history, ends[middle]), linearLimit) == porcupine.Illegal {
			high = middle
		} else {
			low = middle + 1
		}
	}
	if len(ends) == 0 {
		return ""
	}
	for _, o := range history {
		if o.Return == ends[low] {
			e := o.Input.(operation).Event
			return fmt.Sprintf(", from the moment when %s was told %s to its %s under token %s (%s)", e.Who, e.Outcome, e.Op, e.Token, e.Shape)
		}
	}
	return ""
}

// until is the history as it was at a moment: what was not answered then is open.
func until(history []porcupine.Operation, at int64) (part []porcupine.Operation) {
	for _, o := range history {
		if o.Call > at {
			continue
		}
		if o.Return > at {
			in := o.Input.(operation)
			in.Outcome = Unknown
			o.Input, o.Return = in, math.MaxInt64
		}
		part = append(part, o)
	}
	return part
}
