package rewrite

import "testing"

func TestEveryKindAndEffectHasAName(t *testing.T) {
	seen := map[string]bool{}
	for k := KindOther; k <= KindNoBlock; k++ {
		if s := k.String(); s == "" || seen[s] || s == "invalid kind" {
			t.Errorf("kind %d: %q", k, s)
		} else {
			seen[s] = true
		}
	}
	for e := EffectNone; e <= EffectUnknown; e++ {
		if s := e.String(); s == "" || s == "invalid effect" {
			t.Errorf("effect %d: %q", e, s)
		}
	}
	if Kind(200).String() != "invalid kind" || Effect(200).String() != "invalid effect" {
		t.Error("out of range")
	}
}

// Verbs are labels of a metric: a closed set.
func TestVerbsAreFew(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	verbs := map[string]bool{}
	for _, sql := range corpus() {
		for _, st := range a.Analyze(&sc, []byte(sql), Settings{}).Statements {
			verbs[st.Verb] = true
		}
	}
	if len(verbs) > 90 || !verbs["UPDATE"] || !verbs["COPY FROM"] || verbs["OTHER"] {
		t.Errorf("%d verbs: %v", len(verbs), verbs)
	}
}
