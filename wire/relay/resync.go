package relay

import "github.com/fenceproxy/fenceproxy/wire"

// copying is what the engine knows of a COPY FROM STDIN under way.
//
// While the server reads copy data it ignores Sync; once the copy has failed it answers the same Sync, and in the extended
// protocol stops skipping at it. Whether a Sync among the data came before or after the failure only the server knows. So
// when a copy fails that had Syncs among its data, the engine cannot tell how many ReadyForQuery are still to come, nor
// whether messages that were sent already are executed or skipped.
//
// If nothing but Syncs was sent behind the data, it finds out: before the next message of the client is sent, a Sync (the
// server certainly stops skipping), a Close and another Sync are. The reply to the Close tells where all that was before
// ends. If more was sent, the session ends, as PostgreSQL itself ends one that has lost synchronization; no client has a
// reason to put a Sync among copy data and more behind it.
type copying struct {
	under     bool // between CopyInResponse and the end of the copy
	syncs     int  // Syncs that the server may have ignored or answered
	amongData bool // one of them stands behind copy data
	resync    resync
}

type resync uint8

const (
	resyncNone   resync = iota
	resyncWanted        // before the next message
	resyncSent          // its first ReadyForQuery has not come
	resyncMark          // waiting for the reply to Close
	resyncLast          // waiting for the ReadyForQuery behind it
)

// copyFailed deals with the error of a COPY that had Syncs among its data.
func (e *Engine) copyFailed() (lost bool) {
	if !e.enforcing() {
		return false // no byte is changed, and a wrong count is all that can come of it
	}
	for i := 1; i < e.slots.n; i++ {
		switch e.slots.at(i).kind {
		case slotSync, slotCopyEnd, slotMaybeSync, slotGone:
		default:
			return true
		}
	}
	e.copying.resync = resyncWanted
	return false
}

// copyDone: the copy has completed, so the server has ignored the Syncs in front of its CopyDone.
func (e *Engine) copyDone() {
	if !e.copying.under {
		return
	}
	e.copying = copying{resync: e.copying.resync}
	for i := 1; i < e.slots.n; i++ {
		s := e.slots.at(i)
		switch s.kind {
		case slotCopyEnd:
			s.kind = slotGone
			return
		case slotMaybeSync:
			s.kind = slotGone
		case slotGone:
		default:
			return
		}
	}
}

// loseCount ends the session: a reply has come that the oldest unanswered message cannot have. Nothing that the engine
// believes can be relied on then.
func (e *Engine) loseCount(out *Output) (drop bool) {
	if !e.enforcing() {
		return false
	}
	e.violation("terminating connection because protocol synchronization was lost", out)
	return true
}

func (e *Engine) loseSync(out *Output) reply {
	e.violation("terminating connection because protocol synchronization was lost", out)
	return reply{drop: true}
}

// startResync puts the three messages in front of the current one, which waits.
func (e *Engine) startResync() {
	at := len(e.cmem)
	e.cmem = wire.AppendSync(e.cmem)
	e.cmem = wire.AppendClose(e.cmem, wire.TargetStatement, e.reserved.poison())
	e.cmem = wire.AppendSync(e.cmem)
	e.act.before = append(e.act.before, e.cmem[at:])
	e.act.pause = pauseResync
	e.copying.resync = resyncSent
}

// resyncReady deals with a ReadyForQuery while the engine finds out where it is. Those of the client's Syncs pass; of the
// engine's own two, one more than the client is owed comes before the reply to Close.
func (e *Engine) resyncReady() reply {
	switch e.copying.resync {
	case resyncSent:
		e.copying.resync = resyncMark
		return reply{drop: true}
	case resyncLast:
		e.copying.resync = resyncNone
		return reply{drop: true}
	}
	return reply{}
}

// resyncClosed: the reply to Close has come, and with it all replies to what was sent before.
func (e *Engine) resyncClosed() {
	for e.slots.n > 0 {
		e.pop()
	}
	e.copying.resync = resyncLast
}

// enterCopyIn: the server reads copy data now. It ignores every Sync up to the CopyDone or CopyFail, also those that were
// sent already (libpq sends one with the Execute).
func (e *Engine) enterCopyIn() {
	e.copyIn, e.copying = true, copying{under: true}
	e.slots.front() // so that the COPY is at the head, without markers of an earlier one
	for i := 1; i < e.slots.n; i++ {
		s := e.slots.at(i)
		switch s.kind {
		case slotCopyEnd:
			e.copyIn = false
			return
		case slotSync:
			s.kind = slotMaybeSync
			e.syncs--
			e.copying.syncs++
		case slotGone:
		default:
			return
		}
	}
}
