package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// The example of init names the schema version that this binary installs.
func TestDocumentedSchemaVersion(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("created schema fence, version %d\n", tokens.SchemaVersion()); !strings.Contains(string(text), want) {
		t.Errorf("docs/operations.md does not show %q", want)
	}
}
