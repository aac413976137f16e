package relay

import "github.com/fenceproxy/fenceproxy/rewrite"

// Verdict is what became of a statement that fences concern.
type Verdict uint8

const (
	VerdictGuarded     Verdict = iota // a guard in front of it has passed
	VerdictHeld                       // a guard had passed earlier in its transaction
	VerdictRejected                   // it was refused, or its guard failed
	VerdictWouldReject                // mode observe: enforce would have refused it
)

// Decision is a verdict and what it was about. Nothing in it is from the text of a statement.
type Decision struct {
	Verdict Verdict
	Code    string   // SQLSTATE, of rejections
	By      By       // who rejected
	Fences  []string // that are meant; none when the session's tokens decide which, or no fence could be told
	Token   string   // the session's fence.token, as far as the engine knows; "" for none
	Shape   uint64   // fingerprint of the text's shape (rewrite.Statement.Shape); 0 when there is none, as at login
	About   Startup  // the session
}

// Decider is a Recorder that wants decisions. Both methods may be called from any goroutine and must not block.
type Decider interface {
	// Deciding is asked when a session begins: whether it wants any.
	Deciding() bool
	Decided(d Decision)
}

func (e *Engine) decide(v Verdict, d *demand) {
	if e.start.Decider == nil {
		return
	}
	e.start.Decider.Decided(Decision{Verdict: v, Fences: e.fenceNames(d.fences.Union(d.rows)), Token: e.token.guess.raw, Shape: d.shape, About: e.start})
}

// rejected counts a refusal. shape is that of the text that is refused.
func (e *Engine) rejected(code, fence string, by By, shape uint64) {
	e.rec.Rejected(code, fence, by)
	if e.start.Decider == nil {
		return
	}
	d := Decision{Verdict: VerdictRejected, Code: code, By: by, Token: e.token.guess.raw, Shape: shape, About: e.start}
	if by == ByShadow {
		d.Verdict = VerdictWouldReject
	}
	if fence != "" {
		d.Fences = []string{fence}
	}
	e.start.Decider.Decided(d)
}

// shapeOf is the shape of the first statement that has one.
func shapeOf(p *rewrite.Plan) uint64 {
	if p == nil || len(p.Statements) == 0 {
		return 0
	}
	return p.Statements[0].Shape
}

func (g *guardRun) shape() uint64 {
	if g == nil {
		return 0
	}
	return g.demand.shape
}
