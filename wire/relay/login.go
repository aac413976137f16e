package relay

import (
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// startupReady deals with ReadyForQuery before the client was told that the session is ready. The first one is held
// back while the server is asked what the session's token really is (ALTER ROLE ... SET may have given it one) and the
// token is raised; then that of the question stands for it.
func (e *Engine) startupReady(state byte, out *Output) reply {
	e.tx.state = state
	if e.phase == phaseLogin {
		if !e.enforcing() {
			e.phase = phaseReady
			if e.cfg.Mode == ModeObserve {
				e.enterDatabase()
				e.observeStartup()
			}
			return reply{}
		}
		e.phase = phaseQuestion
		e.question = questionAnswer{serial: e.token.serial}
		out.ToServer.add(wire.AppendQuery(nil, tokens.SessionQuestionSQL))
		e.slots.push().become(slotQuery, injected, forQuestion)
		return reply{drop: true}
	}
	if s := e.slots.front(); s != nil {
		e.slots.pop()
	}
	e.answered()
	if err := e.checkStartup(); err != nil {
		e.rejected(err.Code, err.Fence, ByProxy, 0)
		e.fatalError(err, out)
		return reply{drop: true}
	}
	list := e.token.guess.list
	if e.session.InRecovery || !e.question.complete {
		list = nil
	}
	if wait := e.enterDatabase(); len(list) == 0 && !wait {
		e.phase = phaseReady
		return reply{}
	}
	e.phase = phaseAnnounce
	if e.toAnnounce = list; len(list) > 0 {
		e.toAnnounceRaw = e.token.guess.raw
	}
	out.Effect, out.Announce, out.Session = EffectAnnounce, list, e.session
	return reply{drop: true}
}

// checkStartup refuses a session whose token cannot be right.
func (e *Engine) checkStartup() *tokens.Error {
	raw := e.token.guess.raw
	if raw == "" {
		return nil
	}
	if raw != e.start.Token && !e.cfg.AllowRoleToken {
		return &tokens.Error{
			Code:    tokens.CodeMalformed,
			Message: "the session's fencing token does not come from the client",
			Detail:  "It was set by ALTER ROLE or ALTER DATABASE, so that any session gets it, also one of a former holder.",
			Hint:    "Reset it, and pass the token in the connection's options. To allow it: allow_role_token: true.",
		}
	}
	if r := e.checkToken(raw, false); r != nil {
		return &r.Error
	}
	return nil
}

// startupAnnounced is Announced for the token of the startup packet.
func (e *Engine) startupAnnounced(err *tokens.Error, out *Output) {
	e.smem = nil // FromServer's bytes may still be on their way out
	if err != nil {
		e.rejected(err.Code, err.Fence, ByProxy, 0)
		e.fatalError(err, out)
		return
	}
	e.phase = phaseReady
	out.ToClient.add(wire.AppendReadyForQuery(nil, e.tx.state))
	if e.pause != pauseNone {
		e.resume(out) // an error has already told the client and set out.Close
		return
	}
	out.Effect = EffectResume
}

// startupFailed: an error before the session was ready. One of the question is swallowed: without an answer nothing is
// announced, and the guards find out.
func (e *Engine) startupFailed(fields wire.ErrorFields) reply {
	return reply{drop: e.phase == phaseQuestion && !fatal(fields)}
}
