package conversation

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// Show writes a server's message as one word of a '<' line. Errors of the proxy's own class are written by their code
// alone, others with severity (unless it is ERROR) and position as well.
func Show(kind byte, body []byte) string {
	switch kind {
	case 'C':
		return "C(" + string(bytes.TrimRight(body, "\x00")) + ")"
	case 'Z':
		return "Z(" + string(body) + ")"
	case 'D':
		return "D(" + strings.Join(Columns(body), ",") + ")"
	case 'E', 'N':
		f := Fields(body)
		text := f['C']
		if f['V'] != "ERROR" {
			text = f['V'] + " " + text
		}
		if f['P'] != "" {
			text += " @" + f['P']
		}
		return fmt.Sprintf("%c(%s)", kind, text)
	}
	return string(kind)
}

// Fields reads the fields of an ErrorResponse or NoticeResponse.
func Fields(body []byte) map[byte]string {
	fields := map[byte]string{}
	for len(body) > 1 {
		value, rest, _ := bytes.Cut(body[1:], []byte{0})
		fields[body[0]] = string(value)
		body = rest
	}
	return fields
}

// Columns reads a DataRow; NULL is "null".
func Columns(body []byte) []string {
	var columns []string
	for body = body[2:]; len(body) >= 4; {
		n := int32(binary.BigEndian.Uint32(body))
		body = body[4:]
		if n < 0 {
			columns = append(columns, "null")
			continue
		}
		columns = append(columns, string(body[:n]))
		body = body[n:]
	}
	return columns
}

// split cuts a reply line into its words: blanks inside of parentheses do not count.
func split(line string) []string {
	var words []string
	depth, start := 0, -1
	for i, c := range line {
		switch {
		case c == ' ' && depth == 0:
			if start >= 0 {
				words, start = append(words, line[start:i]), -1
			}
			continue
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
		if start < 0 {
			start = i
		}
	}
	if start >= 0 {
		words = append(words, line[start:])
	}
	return words
}
