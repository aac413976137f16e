package tokens

import (
	"errors"
	"math"
	"strings"
)

// Limits of the grammar. The database's parser (fence.parse) has the same: what one accepts, so does the other.
const (
	maxRaw    = 8192 // bytes of a fence.token value
	maxName   = 200  // bytes of a fence name
	maxDigits = 19   // of an epoch or a counter, leading zeros included
	maxQuoted = 100  // bytes of the offending part that an error shows
)

// Parse reads a value of fence.token:
//
//	list = item *("," item)    item = [name "="] [epoch "."] counter
//
// with blanks (space and tab) around names and tokens. The empty string and blanks give an empty List. Anything else
// that is not of this form, a number over 2^63-1, or a fence named twice is an *Error ZF003 that quotes the offending
// part, cut to a bounded length and to printable ASCII.
func Parse(raw string) (List, error) {
	if strings.Trim(raw, blanks) == "" {
		return nil, nil
	}
	if len(raw) > maxRaw {
		return nil, malformed("fence.token is too long", raw)
	}
	list := make(List, 0, 1+strings.Count(raw, ","))
	for part := range strings.SplitSeq(raw, ",") {
		item, err := parseItem(part)
		if err != nil {
			return nil, err
		}
		if list.names(item.Fence) {
			return nil, duplicate(item.Fence)
		}
		list = append(list, item)
	}
	return list, nil
}

// ParseToken reads one [epoch.]counter, as the command line and lock clients give it: no name, no blanks. The error is
// an *Error ZF003.
func ParseToken(s string) (Token, error) {
	t, problem := parseToken(s)
	if problem != "" {
		return Token{}, malformed(problem, s)
	}
	return t, nil
}

// ValidName says whether s can be the name of a fence: 1 to 200 bytes of printable ASCII without blanks and without
// any of , = ' " \ ; $ *. Names are spliced into SQL texts as they are, and none of these bytes changes its meaning in
// any client_encoding or with standard_conforming_strings off.
func ValidName(s string) error {
	if s == "" {
		return errors.New("the name of a fence is empty")
	}
	if len(s) > maxName {
		return errors.New("the name of a fence is longer than 200 bytes")
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return errors.New("the name of a fence has a character that is not allowed: printable ASCII without blanks and , = ' \" \\ ; $ *")
		}
	}
	return nil
}

const blanks = " \t"

func nameByte(c byte) bool {
	return c > ' ' && c <= '~' && strings.IndexByte(`,='"\;$*`, c) < 0
}

func parseItem(part string) (Item, error) {
	text := strings.Trim(part, blanks)
	name, token, named := strings.Cut(text, "=")
	if !named {
		name, token = "", text
	}
	name, token = strings.TrimRight(name, blanks), strings.TrimLeft(token, blanks)
	if named && ValidName(name) != nil {
		return Item{}, malformed("malformed fencing token", text)
	}
	t, problem := parseToken(token)
	if problem != "" {
		return Item{}, malformed(problem, text)
	}
	return Item{Fence: name, Token: t}, nil
}

func parseToken(s string) (t Token, problem string) {
	first, second, dotted := strings.Cut(s, ".")
	if !dotted {
		first, second = "0", s
	}
	var inEpoch, inCounter string
	t.Epoch, inEpoch = parseNumber(first)
	t.Counter, inCounter = parseNumber(second)
	if inEpoch == "" || inCounter == notANumber { // being malformed comes before being out of range
		return t, inCounter
	}
	return t, inEpoch
}

const (
	notANumber = "malformed fencing token"
	outOfRange = "fencing token out of range"
)

func parseNumber(s string) (n int64, problem string) {
	if s == "" {
		return 0, notANumber
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, notANumber
		}
	}
	if len(s) > maxDigits {
		return 0, outOfRange
	}
	var u uint64 // 19 digits fit
	for i := range len(s) {
		u = u*10 + uint64(s[i]-'0')
	}
	if u > math.MaxInt64 {
		return 0, outOfRange
	}
	return int64(u), ""
}
