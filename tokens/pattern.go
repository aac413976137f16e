package tokens

import (
	"errors"
	"strings"
)

// A fence's name in a configuration may hold one *, which stands for any text but none: jobs/* is one fence for each name
// that it matches, jobs/42 among them. Tokens, marks and locks bear such names, never a pattern.

// IsPattern reports whether a fence's name is a pattern.
func IsPattern(fence string) bool { return strings.IndexByte(fence, '*') >= 0 }

// ValidFence says whether s can be the name of a fence in a configuration: a name (ValidName), or one with a single *.
func ValidFence(s string) error {
	if strings.Count(s, "*") > 1 {
		return errors.New("the name of a fence has more than one *")
	}
	if s == "*" {
		return errors.New("* alone would be every fence")
	}
	return ValidName(strings.Replace(s, "*", "x", 1))
}

// Matches reports whether a token, mark or lock called name is for the fence (fence.row_matches).
func Matches(fence, name string) bool {
	star := strings.IndexByte(fence, '*')
	if star < 0 {
		return fence == name
	}
	return len(name) >= len(fence) && name[:star] == fence[:star] && strings.HasSuffix(name, fence[star+1:])
}

// Named yields the index of every item whose name is for the fence.
func (l List) Named(fence string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range l {
			if l[i].Fence != "" && Matches(fence, l[i].Fence) && !yield(i) {
				return
			}
		}
	}
}

func matchesAny(fences []string, name string) bool {
	for _, f := range fences {
		if Matches(f, name) {
			return true
		}
	}
	return false
}

// The guard of a fence whose name is a pattern, and of one whose rows alone are checked by a statement (named).
const GuardPatternSQL = "SELECT fence.guard_pattern($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.bool)" // $1 fence, $2 fence of bare tokens, $3 named

// AppendGuardPattern appends the guard of every token of the session whose name matches the fence. named: a session that
// has none passes; otherwise it is ZF002.
func AppendGuardPattern(dst []byte, fence, bare string, named bool) []byte {
	dst = appendLiteral(append(dst, "SELECT fence.guard_pattern("...), fence)
	dst = appendLiteral(append(dst, ','), bare)
	if named {
		return append(dst, ",true)"...)
	}
	return append(dst, ",false)"...)
}
