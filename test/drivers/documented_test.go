package drivers

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var documentedBlock = regexp.MustCompile("(?m)^```\\w+ (test/drivers/\\S+)\n((?s:.*?))^```$")

// Every line of a snippet in docs/drivers.md that names a program stands in that program.
func TestDocumentedSnippets(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "drivers.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := documentedBlock.FindAllSubmatch(text, -1)
	if len(blocks) < len(all) {
		t.Fatalf("%d snippets for %d drivers", len(blocks), len(all))
	}
	for _, block := range blocks {
		program, err := os.ReadFile(filepath.Join(root, string(block[1])))
		if err != nil {
			t.Error(err)
			continue
		}
		lines := strings.Split(string(program), "\n")
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		for line := range strings.Lines(string(block[2])) {
			if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
				t.Errorf("%s does not hold %q", block[1], line)
			}
		}
	}
}
