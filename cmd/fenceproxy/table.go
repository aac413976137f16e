package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table prints rows as psql does: centred heads, numbers to the right, a line with the number of rows.
type table struct {
	heads []string
	right []bool // columns that are numbers
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.heads))
	for _, row := range append([][]string{t.heads}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, head := range t.heads {
		left := (widths[i] - utf8.RuneCountInString(head)) / 2
		writeCell(&b, i, strings.Repeat(" ", left)+head, widths[i], false)
	}
	b.WriteByte('\n')
	for i, width := range widths {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(strings.Repeat("-", width+2))
	}
	b.WriteByte('\n')
	for _, row := range t.rows {
		for i, cell := range row {
			writeCell(&b, i, cell, widths[i], i < len(t.right) && t.right[i])
		}
		b.WriteByte('\n')
	}
	if len(t.rows) == 1 {
		b.WriteString("(1 row)\n")
	} else {
		fmt.Fprintf(&b, "(%d rows)\n", len(t.rows))
	}
	// psql pads the last column too; blanks at a line's end help nobody.
	var trimmed strings.Builder
	for line := range strings.Lines(b.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, trimmed.String())
	return err
}

func writeCell(b *strings.Builder, column int, cell string, width int, right bool) {
	if column > 0 {
		b.WriteByte('|')
	}
	pad := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
	if right {
		b.WriteString(" " + pad + cell + " ")
	} else {
		b.WriteString(" " + cell + pad + " ")
	}
}
