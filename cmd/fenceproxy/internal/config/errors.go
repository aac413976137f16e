package config

import (
	"fmt"
	"slices"
	"strings"
)

// Origin is where a value was written.
type Origin struct {
	Line   int    // 1-based line in the file; 0 when the value is not from a file
	Column int    // 1-based, in characters
	Name   string // flag or environment variable; "" for a file or a default
}

// Problem is one thing wrong with a configuration.
type Problem struct {
	Origin  Origin
	Message string
}

// Errors are all problems of a pass, in the order of the file, then environment and flags. Their text shows for each
// problem of the file its place, the line and a caret.
type Errors struct {
	File     string
	lines    []string
	Problems []Problem
}

func (e *Errors) add(at Origin, format string, args ...any) {
	e.Problems = append(e.Problems, Problem{Origin: at, Message: fmt.Sprintf(format, args...)})
}

// orNil sorts the problems; nil when there are none.
func (e *Errors) orNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	slices.SortStableFunc(e.Problems, func(a, b Problem) int {
		return position(a.Origin) - position(b.Origin)
	})
	return e
}

func position(o Origin) int {
	if o.Line == 0 {
		return 1 << 30
	}
	return o.Line<<12 + min(o.Column, 1<<12-1)
}

func (e *Errors) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		e.write(&b, p)
	}
	return b.String()
}

func (e *Errors) write(b *strings.Builder, p Problem) {
	switch {
	case p.Origin.Line > 0:
		fmt.Fprintf(b, "%s:%d:%d: %s", e.File, p.Origin.Line, p.Origin.Column, p.Message)
	case p.Origin.Name != "":
		fmt.Fprintf(b, "%s: %s", p.Origin.Name, p.Message)
		return
	case e.File != "":
		fmt.Fprintf(b, "%s: %s", e.File, p.Message)
		return
	default:
		b.WriteString(p.Message)
		return
	}
	if p.Origin.Line > len(e.lines) {
		return
	}
	line := []rune(e.lines[p.Origin.Line-1])
	number := fmt.Sprintf("%5d", p.Origin.Line)
	fmt.Fprintf(b, "\n%s | %s\n%s | ", number, Mask(string(line)), strings.Repeat(" ", len(number)))
	for i := range min(p.Origin.Column-1, len(line)) {
		// A tab stays a tab, so that the caret stands below its column however wide the terminal draws it.
		if line[i] == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	b.WriteByte('^')
}

// oneOf joins the allowed words for a message.
func oneOf(words []string) string {
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
