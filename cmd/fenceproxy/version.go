package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// version is set by the release build: -ldflags "-X main.version=1.2.3".
var version = "dev"

// build says what this binary is.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Schema  int    `json:"schema"`
}

func thisBuild() build {
	b := build{Version: version, Commit: "unknown", Go: runtime.Version(), Schema: tokens.SchemaVersion()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty {
		b.Commit += "-dirty"
	}
	return b
}

func newVersion() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say what this binary is",
		Long:  "version prints the version of the binary, its commit, the Go release, and the version of the\nfence schema that it works with.",
		Example: `  fenceproxy version
  fenceproxy version --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				return printJSON(cmd.OutOrStdout(), b)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "fenceproxy %s (commit %s, %s, fence schema %d)\n", b.Version, b.Commit, b.Go, b.Schema)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
