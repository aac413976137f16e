package relay

import "github.com/fenceproxy/fenceproxy/rewrite"

// slotKind is the message that a slot waits for the reply of. Values are the frontend's message types where it has one.
type slotKind uint8

const (
	slotParse    slotKind = 'P'
	slotBind     slotKind = 'B'
	slotDescribe slotKind = 'D'
	slotClose    slotKind = 'C'
	slotExecute  slotKind = 'E'
	slotSync     slotKind = 'S'
	slotQuery    slotKind = 'Q'
	slotFunction slotKind = 'F'
	// slotCopyEnd marks where the client ended its copy data (CopyDone, CopyFail). It has no reply.
	slotCopyEnd slotKind = 'c'
	// slotMaybeSync is a Sync that was sent before the server said that it reads copy data: it ignores the Sync, or answers
	// it if the copy has failed by then.
	slotMaybeSync slotKind = 's'
	// slotGone is dropped when it comes to the front.
	slotGone slotKind = '-'
)

// origin says who caused a message and so who gets its reply.
type origin uint8

const (
	fromClient origin = iota
	injected          // by the engine: the reply is swallowed, an error takes the place of the client's reply
	poisoned          // the client's message, replaced by one that the server must refuse: its error becomes slot.refusal
)

// purpose tells injected messages apart.
type purpose uint8

const (
	forNothing  purpose = iota
	forReserved         // Parse of a reserved statement: slot.reserved
	forLock             // first step of the fast guard
	forGuard            // the reading step of any guard: its success confirms slot.guard
	forQuestion         // the session question
	forProbe            // Parse of a text that only the server can read, and its Sync
)

// slot is what the engine remembers of a message until the server has answered it. Effects on the engine's picture of
// the session wait here: they apply on the reply, never when the message is read (a server that skips to Sync after an
// error never sees the message).
type slot struct {
	kind        slotKind
	origin      origin
	purpose     purpose
	reserved    reserved
	ahead       bool   // of the Close and Parse of a reserved statement: in a segment of its own
	segment     uint64 // of a Sync, Query or FunctionCall: what it ends
	attempt     uint64 // of the Parse of a reserved statement
	lost        uint64 // reservedSet.lost once it was sent
	behindGuard bool   // of a Query: the server skips it if the guard in front of it fails
	changesTx   bool   // the transaction may be another one after the reply
	statement   *statement
	portal      *portal
	plan        *rewrite.Plan // Execute with effects; nil when there are none
	token       *pendingToken
	guard       *guardRun
	query       *queryRun
	refusal     *refusal
	about       uint64   // shape of a spliced Query
	spliced     *spliced // what an error of the message has its position in; nil: the client's text
}

// slots is a queue of slots in the order the messages were sent. It grows with the pipeline.
type slots struct {
	ring []slot // length is a power of two
	head int
	n    int
}

func (q *slots) push() *slot {
	if q.n == len(q.ring) {
		bigger := make([]slot, max(16, 2*len(q.ring)))
		for i := range q.n {
			bigger[i] = *q.at(i)
		}
		q.ring, q.head = bigger, 0
	}
	s := q.at(q.n)
	q.n++
	return s
}

// at is the i'th slot from the head.
func (q *slots) at(i int) *slot { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// pop drops the head. It clears it, so that nothing is kept alive by a slot that waits to be used again.
func (q *slots) pop() {
	*q.at(0) = slot{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	if q.n == 0 && len(q.ring) > maxIdle {
		q.ring, q.head = nil, 0
	}
}

// maxIdle is how much room for a pipeline, in messages, a session keeps that has none under way.
const maxIdle = 1 << 10

// front is the slot that the next reply belongs to, or nil.
func (q *slots) front() *slot {
	for q.n > 0 {
		switch s := q.at(0); s.kind {
		case slotCopyEnd, slotMaybeSync, slotGone:
			q.pop()
		default:
			return s
		}
	}
	return nil
}
