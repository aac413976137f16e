package relay

import (
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/wire"
)

// probe asks the server about the text of a Query that the analyzer cannot read. Nearly always it is a mistake, and the
// client must get PostgreSQL's own error. But it may be syntax of a newer server: then it may write anything.
//
// The server is sent a Parse of the same text, which executes nothing. An error that comes back is the one that the Query
// would have had, position included, because both begin with raw parsing and analysis of the text; like the Query it also
// drops the unnamed statement. If the text can be parsed, it is one statement and runs behind a guard of every fence; of
// several statements (42601 without a position) nothing is known, and they are refused.
type probe struct {
	state probeState
}

type probeState uint8

const (
	probeNone    probeState = iota
	probeSent               // waiting for the server
	probeParsed             // one statement
	probeSeveral            // more than one
	probeFailed             // the error was passed on, the Query is answered
)

// probed reports whether the current Query may be sent now. If not, the action says what happens instead.
func (e *Engine) probed(p *rewrite.Plan, sql []byte) bool {
	switch e.probe.state {
	case probeParsed:
		e.probe.state = probeNone
		return true
	case probeSeveral:
		e.probe.state = probeNone
		e.poisonQuery(refuseUnread)
		return false
	case probeFailed:
		e.probe.state = probeNone
		e.act.drop = true
		return false
	}
	switch {
	case e.cfg.Walsender:
		e.poisonQuery(refuseReplicationCommand)
		return false
	case e.syncs > 0 && !e.copyIn:
		e.act.pause = pauseQuiet
		return false
	case e.slots.front() != nil:
		// Behind messages without a Sync: had one of them failed, the probe's own Sync would end the skipping.
		e.poisonQuery(refuseUnread)
		return false
	}
	at := len(e.cmem)
	e.cmem = append(append(append(e.cmem, wire.FrontendParse, 0, 0, 0, 0, 0), sql...), 0, 0, 0)
	finishMessage(e.cmem[at:])
	e.cmem = wire.AppendSync(e.cmem)
	e.act.before = append(e.act.before, e.cmem[at:])
	e.act.pause = pauseProbe
	e.probe.state = probeSent
	e.slots.push().become(slotParse, injected, forProbe)
	e.boundary(slotSync).become(slotSync, injected, forProbe)
	return false
}

// probeError takes the error of a probe's Parse and reports whether the client gets it.
func (e *Engine) probeError(fields wire.ErrorFields) (pass bool) {
	code, _ := fields.Get(wire.FieldCode)
	_, position := fields.Get(wire.FieldPosition)
	if string(code) == "42601" && !position {
		e.probe.state = probeSeveral
		return false
	}
	e.probe.state = probeFailed
	return true
}
