package metrics

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// maxVerbs bounds the verb label, which is a closed set of package rewrite, against a mistake there.
const maxVerbs = 150

// Recorder counts what happens per message. Its methods take no lock and allocate nothing, apart from the first time a
// combination of labels is seen.
type Recorder struct {
	fence func(string) string

	statements *prometheus.CounterVec
	verbs      atomic.Pointer[map[string]*verbCounters] // replaced as a whole when a verb is new
	newVerb    sync.Mutex

	guardVec   *prometheus.CounterVec
	guards     [relay.GuardSkipped + 1]prometheus.Counter
	rejections *prometheus.CounterVec
	bytesVec   *prometheus.CounterVec
	toServer   prometheus.Counter
	toClient   prometheus.Counter
}

// verbCounters are the counters of a verb by effect, and whether it was fenced.
type verbCounters [rewrite.EffectUnknown + 1][2]atomic.Pointer[prometheus.Counter]

var guardNames = [relay.GuardSkipped + 1]string{"fast", "slow", "session", "readonly", "skipped"}

var byNames = [relay.ByShadow + 1]string{"database", "proxy", "row", "shadow"}

func newRecorder(m *Metrics) *Recorder {
	r := &Recorder{
		fence:      m.fence,
		statements: counters("statements_total", "Statements seen, by command, by what they may do to data, and whether they wrote a fenced table.", "verb", "effect", "fenced"),
		guardVec:   counters("guards_total", "Guards, by form; skipped ones were confirmed earlier in the same transaction.", "form"),
		rejections: counters("rejections_total", "Statements and sessions refused, by SQLSTATE, fence and who refused; shadow ones were not, in mode observe.", "code", "fence", "by"),
		bytesVec:   counters("relayed_bytes_total", "Bytes relayed, by direction.", "direction"),
	}
	for i, name := range guardNames {
		r.guards[i] = r.guardVec.WithLabelValues(name)
	}
	r.toServer, r.toClient = r.bytesVec.WithLabelValues("to_server"), r.bytesVec.WithLabelValues("to_client")
	r.verbs.Store(&map[string]*verbCounters{})
	return r
}

// expect makes the counter that a fence is watched by.
func (r *Recorder) expect(fence string) {
	r.rejections.WithLabelValues(tokens.CodeStale, fence, byNames[relay.ByDatabase])
}

func (r *Recorder) register(to *prometheus.Registry) {
	to.MustRegister(r.statements, r.guardVec, r.rejections, r.bytesVec)
}

// Statement implements relay.Recorder.
func (r *Recorder) Statement(verb string, effect rewrite.Effect, fenced bool) {
	v := (*r.verbs.Load())[verb]
	if v == nil {
		v = r.addVerb(verb)
	}
	index := 0
	if fenced {
		index = 1
	}
	cell := &v[min(effect, rewrite.EffectUnknown)][index]
	c := cell.Load()
	if c == nil {
		c = r.addCell(verb, effect, fenced)
		cell.Store(c)
	}
	(*c).Inc()
}

func (r *Recorder) addVerb(verb string) *verbCounters {
	r.newVerb.Lock()
	defer r.newVerb.Unlock()
	old := *r.verbs.Load()
	if v := old[verb]; v != nil {
		return v
	}
	if len(old) >= maxVerbs {
		verb = other
		if v := old[verb]; v != nil {
			return v
		}
	}
	next := maps.Clone(old)
	next[verb] = &verbCounters{}
	r.verbs.Store(&next)
	return next[verb]
}

func (r *Recorder) addCell(verb string, effect rewrite.Effect, fenced bool) *prometheus.Counter {
	if (*r.verbs.Load())[verb] == nil {
		verb = other
	}
	c := r.statements.WithLabelValues(verb, min(effect, rewrite.EffectUnknown).String(), strconv.FormatBool(fenced))
	return &c
}

// Guard implements relay.Recorder.
func (r *Recorder) Guard(form relay.GuardForm) { r.guards[form].Inc() }

// Rejected implements relay.Recorder.
func (r *Recorder) Rejected(code, fence string, by relay.By) {
	r.rejections.WithLabelValues(boundCode(code), r.fence(fence), byNames[by]).Inc()
}

// Bytes implements relay.Recorder.
func (r *Recorder) Bytes(toServer, toClient int) {
	if toServer > 0 {
		r.toServer.Add(float64(toServer))
	}
	if toClient > 0 {
		r.toClient.Add(float64(toClient))
	}
}

// boundCode keeps our own SQLSTATEs and those that the proxy raises itself.
func boundCode(code string) string {
	switch code {
	case tokens.CodeStale, tokens.CodeRequired, tokens.CodeMalformed, tokens.CodeNotAllowed, tokens.CodeUnavailable, tokens.CodeUnannounced,
		"53300", "54000", "57P01", "57P03", "08P01", "0A000", "40001", "25006":
		return code
	}
	return other
}
