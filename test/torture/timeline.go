package torture

import (
	"fmt"
	"html/template"
	"os"
	"slices"
	"strings"
)

// timeline is a schedule as a page: a lane for each fence with a row for each actor, tenures as bars, what they did as dots
// on them, freezes shaded, violations as lines.
type timeline struct {
	Title      string
	Width      int
	Ticks      []tick
	Lanes      []lane
	Height     int
	Violations []string
}

type tick struct {
	X    float64
	Text string
}

type lane struct {
	Fence string
	Y     int
	Rows  []row
	Lines []shape // violations
	H     int
}

type row struct {
	Who    string
	Y      int
	Bars   []shape
	Shades []shape
	Dots   []shape
}

// shape is a bar, a shade, a dot or a line; Tip is shown when the mouse is on it.
type shape struct {
	X, W  float64
	Class string
	Text  string
	Tip   string
}

const (
	perMillisecond = 0.35 // pixels
	rowHeight      = 22
	left           = 90
)

// layout lays out a schedule.
func layout(s Schedule, events []Event, faults []faultDone, violations []Violation) timeline {
	events = slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Fence == "" })
	if len(events) == 0 {
		return timeline{Title: "nothing happened"}
	}
	begin, end := events[0].From, events[0].To
	for _, e := range events {
		begin, end = min(begin, e.From), max(end, e.To)
	}
	x := func(at int64) float64 {
		return left + float64(min(max(at, begin), end)-begin)/1e6*perMillisecond
	}
	ms := func(from, to int64) string { return fmt.Sprintf("%.1f ms", float64(to-from)/1e6) }
	at := func(t int64) string { return fmt.Sprintf("at %.1f ms", float64(t-begin)/1e6) }
	t := timeline{Title: fmt.Sprintf("schedule %d", s.Seed), Width: int(x(end)) + 20}
	for i := int64(0); begin+i*1e6 <= end; i += 250 {
		t.Ticks = append(t.Ticks, tick{x(begin + i*1e6), fmt.Sprintf("%d ms", i)})
	}
	y := 30
	for _, st := range stages {
		l := lane{Fence: st.Fence, Y: y}
		byActor := map[string][]Event{}
		for _, e := range events {
			if e.Fence == st.Fence {
				byActor[e.Who] = append(byActor[e.Who], e)
			}
		}
		var names []string
		for who := range byActor {
			names = append(names, who)
		}
		slices.Sort(names)
		for i, who := range names {
			r := row{Who: who, Y: y + 4 + i*rowHeight}
			type span struct{ from, to int64 }
			tenures := map[string]*span{}
			for _, e := range byActor[who] {
				if e.Token == "" || e.Op == Held {
					continue
				}
				if tenures[e.Token] == nil {
					tenures[e.Token] = &span{e.To, e.To}
				}
				u := tenures[e.Token]
				u.from, u.to = min(u.from, e.To), max(u.to, e.To)
			}
			for token, u := range tenures {
				r.Bars = append(r.Bars, shape{X: x(u.from), W: max(3, x(u.to)-x(u.from)), Class: "tenure", Text: token,
					Tip: fmt.Sprintf("%s: token %s, %s, for %s", who, token, at(u.from), ms(u.from, u.to))})
			}
			for _, e := range byActor[who] {
				if e.Op == Held {
					r.Shades = append(r.Shades, shape{X: x(e.From), W: max(1, x(e.To)-x(e.From)), Class: "held", Tip: fmt.Sprintf("held back %s, for %s", e.Shape, ms(e.From, e.To))})
					continue
				}
				r.Dots = append(r.Dots, shape{X: x(e.To), Class: string(e.Op) + " " + string(e.Outcome),
					Tip: strings.TrimSpace(fmt.Sprintf("%s %s under token %s: %s %s (%s), %s, took %s", who, e.Op, e.Token, e.Outcome, e.Code, e.Shape, at(e.To), ms(e.From, e.To)))})
			}
			for _, f := range faults {
				worker, _, _ := strings.Cut(who, ".")
				if f.Victim != worker && f.Victim != who && !strings.HasPrefix(f.Victim, "proxy") && f.What != string(CrashServer) {
					continue
				}
				class := "fault"
				if strings.HasPrefix(f.Victim, "proxy") { // not everybody's
					class = "proxy"
				}
				r.Shades = append(r.Shades, shape{X: x(f.From), W: max(1.5, x(f.To)-x(f.From)), Class: class, Tip: fmt.Sprintf("%s %s, for %s", f.What, f.Victim, ms(f.From, f.To))})
			}
			l.Rows = append(l.Rows, r)
		}
		l.H = 8 + len(names)*rowHeight
		for _, v := range violations {
			if v.Fence == st.Fence {
				l.Lines = append(l.Lines, shape{X: x(v.At), Tip: v.What})
				t.Violations = append(t.Violations, "fence "+v.Fence+", "+at(v.At)+": "+v.What)
			}
		}
		y += l.H + 6
		t.Lanes = append(t.Lanes, l)
	}
	t.Height = y
	return t
}

// writeTimeline writes the page of a schedule to a file.
func writeTimeline(file string, s Schedule, events []Event, faults []faultDone, violations []Violation) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := timelinePage.Execute(f, layout(s, events, faults, violations)); err != nil {
		return err
	}
	return f.Close()
}

var timelinePage = template.Must(template.New("timeline").Funcs(template.FuncMap{"plus": func(a int, b int) int { return a + b }}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>
body { font: 13px sans-serif; margin: 16px; color: #222 }
svg text { font: 11px sans-serif; fill: #444 }
.lane { fill: #f7f7f7 } .tenure { fill: #bcd4ee } .held { fill: #d9a441; opacity: .35 } .fault { fill: #777; opacity: .3 } .proxy { fill: #777; opacity: .1 }
.dot { stroke: none; fill: #999 }
.ok { fill: #1a8f3c } .refused { fill: #d02a2a } .failed { fill: #999 } .unknown { fill: #e08a00 }
.raise { stroke: #124; stroke-width: 1.2 } .read { opacity: .5 }
.violation { stroke: #e000a0; stroke-width: 2 }
.key span { display: inline-block; margin-right: 18px } .key i { display: inline-block; width: 10px; height: 10px; margin-right: 5px; border-radius: 5px }
</style></head><body>
<h1>{{.Title}}</h1>
<p class="key"><span><i style="background:#bcd4ee"></i>tenure, with its token</span><span><i style="background:#1a8f3c"></i>ok</span>
<span><i style="background:#d02a2a"></i>refused</span><span><i style="background:#e08a00"></i>unknown</span><span><i style="background:#999"></i>failed otherwise</span>
<span><i style="border:1px solid #124"></i>token presented</span><span><i style="background:#bbb"></i>stopped or killed</span><span><i style="background:#d9a441"></i>held back</span>
<span><i style="background:#e000a0"></i>violation</span></p>
{{range .Violations}}<p><b>{{.}}</b></p>{{else}}<p>No violation.</p>{{end}}
<svg width="{{.Width}}" height="{{.Height}}" xmlns="http://www.w3.org/2000/svg">
{{range .Ticks}}<text x="{{.X}}" y="18">{{.Text}}</text><line x1="{{.X}}" x2="{{.X}}" y1="22" y2="{{$.Height}}" stroke="#e4e4e4"/>
{{end}}{{range .Lanes}}{{$lane := .}}<rect class="lane" x="0" y="{{.Y}}" width="{{$.Width}}" height="{{.H}}"/>
{{range .Rows}}<text x="6" y="{{plus .Y 14}}">{{.Who}}</text>
{{$y := .Y}}{{range .Bars}}<g><rect class="{{.Class}}" x="{{.X}}" y="{{plus $y 3}}" width="{{.W}}" height="14" rx="3"/><title>{{.Tip}}</title></g>
{{end}}{{range .Shades}}<rect class="{{.Class}}" x="{{.X}}" y="{{$y}}" width="{{.W}}" height="20"><title>{{.Tip}}</title></rect>
{{end}}{{range .Dots}}<circle class="dot {{.Class}}" cx="{{.X}}" cy="{{plus $y 10}}" r="3.2"><title>{{.Tip}}</title></circle>
{{end}}{{end}}{{range .Lines}}<line class="violation" x1="{{.X}}" x2="{{.X}}" y1="{{$lane.Y}}" y2="{{plus $lane.Y $lane.H}}"><title>{{.Tip}}</title></line>
{{end}}{{end}}</svg></body></html>
`))
