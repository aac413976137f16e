package catalog

import "time"

// pace keeps much DDL from keeping the server busy with looks: they take a tenth of the time. What they have not taken is
// saved up to maxSaved, so that a look at a change that comes alone, or soon after another one, begins at once.
type pace struct {
	saved time.Duration // below 0: more was taken than there was
	since time.Time     // the end of the last look
}

const (
	maxSaved = 500 * time.Millisecond
	maxPause = time.Second
)

// looked notes that a look has taken the time from begin to end.
func (p *pace) looked(begin, end time.Time) {
	if p.since.IsZero() {
		p.saved = maxSaved
	} else {
		p.saved = min(p.saved+begin.Sub(p.since)/10, maxSaved)
	}
	p.saved, p.since = p.saved-end.Sub(begin), end
	p.saved = max(p.saved, -maxPause/10) // nobody waits longer
}

// wait is how long the next look waits.
func (p *pace) wait(now time.Time) time.Duration {
	return max(-10*p.saved-now.Sub(p.since), 0)
}
