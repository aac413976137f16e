package dbcheck

// Severity says how much a finding matters.
type Severity uint8

const (
	Notice  Severity = iota // worth knowing; fencing works
	Problem                 // something is not fenced, or fenced writes will fail
)

// Finding is one thing found, a line of text without a full stop.
type Finding struct {
	Severity Severity
	Text     string
}

// Problems says whether a problem is among the findings.
func Problems(findings []Finding) bool {
	for _, f := range findings {
		if f.Severity == Problem {
			return true
		}
	}
	return false
}
