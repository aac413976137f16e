package main

import (
	"fmt"
	"strings"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// decide says in words what the session engine does with a statement. The engine decides with more knowledge: the
// session's token, what it prepared earlier, and what was guarded earlier in the transaction.
func decide(c *config.Config, st *rewrite.Statement, e *explainedStatement) {
	action, code, fences, session := enforced(c, st, guardedFences(c, st))
	switch c.Mode {
	case config.ModeOff:
		e.Action = "forward (mode off)"
		return
	case config.ModeObserve:
		e.Action = "forward (mode observe); enforce would: " + action
		return
	}
	e.Action, e.Refusal = action, code
	if fate := withoutToken(c, st, code); fate != "" {
		e.Action = strings.TrimSuffix(action, passesWithoutToken) + "; without a token: " + fate + " (tokenless: " + string(c.Tokenless) + ")"
	}
	if st.Refuse != nil {
		e.Hint = st.Refuse.Hint
	}
	var guards []string
	if session {
		guards = append(guards, string(tokens.AppendGuardSession(nil, c.BareFence(), c.Opaque == config.OpaqueAllow)))
	}
	var names []string
	for _, fence := range fences {
		if tokens.IsPattern(fence) {
			guards = append(guards, string(tokens.AppendGuardPattern(nil, fence, c.BareFence(), false)))
		} else {
			names = append(names, fence)
		}
	}
	if len(names) > 0 {
		guards = append(guards, string(tokens.AppendGuard(nil, names, c.BareFence())))
	}
	if code == "" {
		for i := range st.NewRows.All() {
			guards = append(guards, string(tokens.AppendGuardPattern(nil, c.Fences[i].Name, c.BareFence(), true)))
		}
	}
	e.Injected = strings.Join(guards, "; ")
}

// passesWithoutToken is the end of an action that says what opaque: allow is to sessions without a token.
const passesWithoutToken = "; without one: forward"

// withoutToken is what tokenless makes of the statement in a session without a token (relay.Config.Tokenless); "" for what
// fences and opaque: reject refuse there anyway, and for what it does not touch.
func withoutToken(c *config.Config, st *rewrite.Statement, code string) string {
	opaque := st.Effect >= rewrite.EffectOpaque
	refused := "refuse with " + tokens.CodeRequired
	switch {
	case code != "" || c.Tokenless == config.TokenlessReadWrite || opaque && c.Opaque == config.OpaqueReject:
		return ""
	case !st.Fences.Empty():
		return ""
	case st.MayLiftReadOnly:
		return refused + " up to PostgreSQL 15"
	case c.Tokenless == config.TokenlessOpaqueReadOnly && !opaque:
		return ""
	case st.Kind == rewrite.KindNoBlock || st.Kind == rewrite.KindCommitPrepared || st.PastReadOnly:
		return refused
	}
	switch st.Kind {
	case rewrite.KindOther, rewrite.KindExecute, rewrite.KindDeclare, rewrite.KindFetch, rewrite.KindCopyIn, rewrite.KindCopyOut, rewrite.KindCall, rewrite.KindDo:
		return "read-only"
	}
	return ""
}

// guardedFences are the fences whose guard the statement needs.
func guardedFences(c *config.Config, st *rewrite.Statement) []string {
	var names []string
	for i := range st.Fences.All() {
		names = append(names, c.Fences[i].Name)
	}
	return names
}

// enforced is what mode enforce does: the action, the SQLSTATE if it always refuses, the fences that are guarded, and
// whether all that the session has tokens for are as well.
func enforced(c *config.Config, st *rewrite.Statement, written []string) (action, code string, fences []string, session bool) {
	isCall := st.Kind == rewrite.KindCall || st.Kind == rewrite.KindDo
	switch {
	case st.Refuse != nil:
		return fmt.Sprintf("refuse with %s: %s", st.Refuse.Code, st.Refuse.Message), st.Refuse.Code, nil, false
	case isCall && c.OpaqueCall == config.OpaqueCallReject:
		return "refuse with " + tokens.CodeNotAllowed + " (opaque_call: reject)", tokens.CodeNotAllowed, nil, false
	case st.Kind == rewrite.KindPrepare:
		return "forward; EXECUTE is checked as this statement", "", nil, false
	case st.Kind == rewrite.KindExecute:
		return "check as the statement that was prepared", "", nil, false
	case st.Kind == rewrite.KindSetToken:
		return "raise the mark to the token, then forward", "", nil, false
	case st.Kind == rewrite.KindNoBlock:
		return "forward; no guard can run in front of it", "", nil, false
	}
	switch st.Effect {
	case rewrite.EffectUnknown:
		return "let PostgreSQL parse it first; if it can, guard every fence, then forward", "", c.FenceNames(), false
	case rewrite.EffectOpaque:
		if isCall && c.OpaqueCall == config.OpaqueCallAllow && len(written) == 0 {
			return "forward (opaque_call: allow)", "", nil, false
		}
		without := passesWithoutToken
		if c.Opaque == config.OpaqueReject {
			without = "; without one: refuse with " + tokens.CodeRequired
		}
		if len(written) > 0 {
			return guardText(written) + " and the session's other fences, then forward", "", written, !isCall || c.OpaqueCall != config.OpaqueCallAllow
		}
		return "with a token: guard the session's fences, then forward" + without, "", nil, true
	case rewrite.EffectWrite:
		if len(written) > 0 {
			return guardText(written) + ", then forward", "", written, false
		}
		if !st.NewRows.Empty() {
			return "guard the session's named tokens, check rows, then forward", "", nil, false
		}
		if !st.RowFences.Empty() {
			return "check rows, then forward", "", nil, false
		}
	}
	return "forward", "", nil, false
}

func guardText(fences []string) string { return "guard " + strings.Join(fences, ", ") }
