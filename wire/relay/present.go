package relay

import (
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// presentToken deals with an assignment of fence.token that is about to be sent: a value that cannot be right is refused,
// and a new one is announced first, so that the holder before is cut off now and not at the first write. It may pause the
// client (e.act.pause); the message is then looked at again.
func (e *Engine) presentToken(raw string, local bool) *refusal {
	if e.cfg.TokenIsOurs {
		return &refuseOwnToken
	}
	list, err := tokens.Parse(raw)
	if err != nil {
		return refuse(tokenError(err))
	}
	if err := list.Check(e.cfg.Fences, e.cfg.Bare); err != nil {
		return refuse(err)
	}
	if e.cfg.Pooled && !local && len(list) > 0 {
		return &refusePooled
	}
	if len(list) == 0 || raw == e.announced || e.session.InRecovery {
		return nil
	}
	if e.announceAsked {
		if e.refused != nil {
			return refuse(e.refused)
		}
		return nil
	}
	if e.copyIn {
		return nil // the server waits for copy data, not the client for replies; it ends the session
	}
	if e.syncs > 0 {
		e.act.pause = pauseQuiet
		return nil
	}
	if !e.mayAnnounce() {
		return nil
	}
	e.toAnnounce, e.toAnnounceRaw = list, raw
	e.act.pause = pauseAnnounce
	return nil
}

// mayAnnounce: a session whose own transaction is guarded, has written or holds locks would wait for itself, or for
// somebody who waits for it, where PostgreSQL sees no deadlock. Its next guard then says ZF006 with a hint.
func (e *Engine) mayAnnounce() bool {
	switch e.tx.state {
	case wire.TxIdle:
		return !e.tx.touchedNow
	case wire.TxActive:
		return !e.tx.touchedNow && !e.tx.touchedBefore
	}
	return false
}

func tokenError(err error) *tokens.Error {
	if t, ok := err.(*tokens.Error); ok {
		return t
	}
	return &tokens.Error{Code: tokens.CodeMalformed, Message: "malformed fencing token"}
}

// Announced is the answer to EffectAnnounce: the marks that the announced tokens are now, or why not.
func (e *Engine) Announced(marks []tokens.Mark, err *tokens.Error, out *Output) {
	switch {
	case e.pause == pauseLook:
		e.looked(out)
		return
	case e.pause != pauseAnnounce && e.phase != phaseAnnounce:
		return
	}
	if err == nil {
		e.announced = e.toAnnounceRaw
		for _, m := range marks {
			for i, name := range e.cfg.Fences {
				if tokens.Matches(name, m.Name) {
					e.marks[i] = m
				}
			}
		}
	}
	if e.phase == phaseAnnounce {
		e.startupAnnounced(err, out)
		return
	}
	e.announceAsked, e.refused = true, err
	e.resume(out) // an error has already told the client and set out.Close
}

// mustAsk pauses the current message until the server has said whether the session has a token, if that decides about a
// CALL or DO: a guard in front of one that commits inside breaks it (2D000), so it must not be put there for nothing.
// Sessions that only read without a token: or if no guard can be put in front of it at all.
func (e *Engine) mustAsk(p *rewrite.Plan) bool {
	if !e.enforcing() || e.token.sure {
		return false
	}
	ask := false
	for i := range p.Statements {
		ask = ask || e.mustKnow(&p.Statements[i])
	}
	return ask && e.tx.state == wire.TxIdle && e.askFirst()
}

// askFirst pauses the current message until the server has told the session's token, unless it just has, or cannot be
// asked in the middle of a segment.
func (e *Engine) askFirst() (paused bool) {
	switch {
	case e.asked, e.copyIn:
		return false
	case e.syncs > 0:
		e.act.pause = pauseQuiet
	case e.slots.front() != nil || e.tx.state == wire.TxFailed:
		return false
	default:
		e.ask()
		e.act.pause = pauseAsk
	}
	return true
}

// ask puts the session question in front of the current message.
func (e *Engine) ask() {
	at := len(e.cmem)
	e.cmem = wire.AppendQuery(e.cmem, tokens.SessionQuestionSQL)
	e.act.before = append(e.act.before, e.cmem[at:])
	e.boundary(slotQuery).become(slotQuery, injected, forQuestion)
	e.question = questionAnswer{serial: e.token.serial}
}

// questionAnswer is the row that answers tokens.SessionQuestionSQL.
type questionAnswer struct {
	serial   uint64
	complete bool
	token    string
	session  tokens.Session
}

func (q *questionAnswer) read(body []byte, start Startup) {
	row, ok := wire.DecodeDataRow(body)
	if !ok || row.Columns() < 5 {
		return
	}
	text := func(i int) string {
		v, _, _ := row.Column(i)
		return string(v)
	}
	q.token = text(0)
	q.session = tokens.Session{
		Database: text(1), SystemID: text(2), InRecovery: text(3) == "t", User: text(4), Application: start.Application,
	}
	q.complete = true
}

// answered: the question's ReadyForQuery has come.
func (e *Engine) answered() {
	if !e.question.complete {
		return
	}
	e.session = e.question.session
	e.token.learn([]byte(e.question.token), e.question.serial)
}
