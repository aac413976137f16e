package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	full := flag.Bool("full", false, "larger bounds too: some minutes")
	trails := flag.Bool("trails", false, "print how each broken variant goes wrong")
	flag.Parse()
	which := shortBounds
	if *full {
		which = fullBounds
	}
	if err := check(which, *trails); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

// check searches the model, which must be right, and its variants, which must not.
func check(which []bounds, trails bool) error {
	var wrong []string
	fmt.Println("the protocol: sessions, transactions of each, crashes")
	for _, b := range which {
		r, err := search(b, "", "")
		if err != nil {
			return err
		}
		verdict := "no error"
		if r.violation != "" {
			verdict = "WRONG: " + r.violation
			wrong = append(wrong, fmt.Sprintf("the protocol within %+v: %s\n%s", b, r.violation, tail(r.trail)))
		}
		fmt.Printf("  %d × %d, %d   %9d states, depth %3d, %6.1f s   %s\n", b.sessions, b.transactions, b.crashes, r.states, r.depth, r.took.Seconds(), verdict)
	}
	fmt.Printf("broken variants, within %d × %d, %d\n", variantBounds.sessions, variantBounds.transactions, variantBounds.crashes)
	for _, v := range variants {
		r, err := search(variantBounds, v.define, v.breaks)
		if err != nil {
			return fmt.Errorf("%s: %w", v.define, err)
		}
		verdict := "refuted: " + r.violation
		if !strings.Contains(r.violation, v.breaks) {
			verdict = "NOT REFUTED"
			wrong = append(wrong, fmt.Sprintf("%s: want %s, found %q", v.define, v.breaks, r.violation))
		}
		fmt.Printf("  %-84s %5.1f s   %s\n", v.what, r.took.Round(time.Millisecond).Seconds(), verdict)
		if trails {
			fmt.Println(r.trail)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// tail is the end of a trail.
func tail(trail string) string {
	lines := strings.Split(trail, "\n")
	return strings.Join(lines[max(0, len(lines)-80):], "\n")
}
