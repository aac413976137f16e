package tokens

import (
	"cmp"
	"strconv"
	"strings"
)

// Token is a fencing token: [epoch.]counter, ordered by epoch, then counter. Both are 0..2^63-1. The zero Token is the
// valid token 0; absence is a List without an item for the fence.
type Token struct {
	Epoch   int64
	Counter int64
}

// Compare returns -1, 0 or +1 as t is lower than, equal to or higher than u.
func (t Token) Compare(u Token) int {
	return cmp.Or(cmp.Compare(t.Epoch, u.Epoch), cmp.Compare(t.Counter, u.Counter))
}

// String is the canonical form, which the database builds too (fence.token_text): the counter alone in epoch 0,
// else epoch.counter.
func (t Token) String() string { return string(t.append(nil)) }

func (t Token) append(dst []byte) []byte {
	if t.Epoch != 0 {
		dst = append(strconv.AppendInt(dst, t.Epoch, 10), '.')
	}
	return strconv.AppendInt(dst, t.Counter, 10)
}

// Item is one entry of the session parameter fence.token. Fence is "" for a bare token.
type Item struct {
	Fence string
	Token Token
}

// List is a parsed fence.token value in the order written. The empty List means absent: the empty string or blanks.
// Parse never returns a list with two items of one name, nor with two bare ones.
type List []Item

// String is the canonical text of the list; Parse reads it back.
func (l List) String() string {
	var b strings.Builder
	for i, item := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		if item.Fence != "" {
			b.WriteString(item.Fence)
			b.WriteByte('=')
		}
		b.WriteString(item.Token.String())
	}
	return b.String()
}

// For returns the token meant for fence: its named item, else the bare one when bare, the fence that bare tokens are
// for ("" for none), is this fence.
func (l List) For(fence, bare string) (Token, bool) {
	if fence == "" {
		return Token{}, false
	}
	for _, item := range l {
		if item.Fence == fence {
			return item.Token, true
		}
	}
	if fence == bare {
		for _, item := range l {
			if item.Fence == "" {
				return item.Token, true
			}
		}
	}
	return Token{}, false
}

// Check reports what Parse cannot know: a name that is none of fences (which may be patterns), a bare token when bare is "", and a bare token
// beside a named one for the same fence. The error is ZF003; nil when the list is good.
func (l List) Check(fences []string, bare string) *Error {
	for _, item := range l {
		if item.Fence == "" {
			if bare == "" {
				return &Error{Code: CodeMalformed,
					Message: "fencing token " + item.Token.String() + " does not name its fence",
					Detail:  "Several fences are configured, and none of them is the one that bare tokens are for.",
					Hint:    "Name the fence: SET fence.token = '" + example(fences) + "=" + item.Token.String() + "'."}
			}
			if l.names(bare) {
				return duplicate(bare)
			}
			continue
		}
		if !matchesAny(fences, item.Fence) {
			return &Error{Code: CodeMalformed,
				Message: "fencing token for an unknown fence " + quote(item.Fence),
				Hint:    "The names of fences are those of fenceproxy's configuration, for example " + example(fences) + "."}
		}
	}
	return nil
}

func (l List) names(fence string) bool {
	for _, item := range l {
		if item.Fence == fence {
			return true
		}
	}
	return false
}

func contains(fences []string, name string) bool {
	for _, f := range fences {
		if f == name {
			return true
		}
	}
	return false
}

func example(fences []string) string {
	if len(fences) == 0 {
		return "billing"
	}
	return strings.Replace(fences[0], "*", "42", 1)
}
