package conversation

import (
	"fmt"
	"regexp"
	"strconv"
)

var tokenInBraces = regexp.MustCompile(`\{(\d+)\}`)

// numbers maps the small numbers in braces to tokens never used before, all of seven digits, and back.
type numbers int

func (base numbers) fill(s string) string {
	return tokenInBraces.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.Atoi(m[1 : len(m)-1])
		return strconv.Itoa(int(base) + n)
	})
}

var sevenDigits = regexp.MustCompile(`\d{7}`)

// hide makes bytes of different runs comparable; the length stays.
func (base numbers) hide(raw []byte) []byte {
	return sevenDigits.ReplaceAllFunc(raw, func(m []byte) []byte {
		n, _ := strconv.Atoi(string(m))
		if n -= int(base); n < 0 || n > 99 {
			return m
		}
		return fmt.Appendf(nil, "token%02d", n)
	})
}

func (base numbers) show(s string) string {
	return sevenDigits.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.Atoi(m)
		if n -= int(base); n < 0 || n > 99 {
			return m
		}
		return fmt.Sprintf("{%d}", n)
	})
}
